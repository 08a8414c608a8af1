package boot

import (
	"fmt"
	"sync"
	"time"

	"github.com/millrace-go/millrace/storage/sqlite"
)

// StandsStill is how long a process may keep others from writing to a file before people are told. A writer gives up
// after as long.
const StandsStill = 10 * time.Second

// Standstill returns what /readyz notes of a store in a file: which process keeps the others from writing. file is
// empty for any other store. The program is ready nonetheless, as on a full disk: it can show what is there, and to
// send requests to another program on the file would help nobody.
func Standstill(file string) (notes func() string) {
	if file == "" {
		return func() string { return "" }
	}
	look := sqlite.Standstill(file)
	var mu sync.Mutex
	var looked time.Time
	text := ""
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); looked.IsZero() || now.Sub(looked) >= readyFor {
			looked, text = now, ""
			if who, lasted := look(); lasted >= StandsStill {
				text = fmt.Sprintf("; nothing can be written: %s has been in a transaction for %v", who, lasted.Round(time.Second))
			}
		}
		return text
	}
}
