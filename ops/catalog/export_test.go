package catalog

// Encode is encode.
func (d Description) Encode() ([]byte, error) { return d.encode() }
