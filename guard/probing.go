package guard

import "time"

// proveProbe notes that the last write of the record says that this process probes.
func proveProbe(f *fleet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.probing && f.doc.Prober == f.id && f.wrote.Before(f.till) {
		f.till = f.wrote.Add(probeTTL * 5 / 6)
	}
}

// stoodStill reports that this process stood still since it claimed the probe, so that another may probe by now.
func stoodStill(f *fleet) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.probing && !f.till.IsZero() && !time.Now().Before(f.till)
}
