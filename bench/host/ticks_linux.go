package host

import (
	"os"
	"strconv"
	"strings"
)

// Read returns the processors' time since the start of the machine: the part that the host took for other machines,
// and all. Source: proc(5), /proc/stat.
func Read() (t Ticks) {
	const steal = 8 // the column; guest time, in the last two, is part of user time
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t
	}
	line, _, _ := strings.Cut(string(text), "\n")
	columns := strings.Fields(line)
	if len(columns) <= steal || columns[0] != "cpu" {
		return t
	}
	for _, column := range columns[1 : steal+1] {
		n, err := strconv.ParseFloat(column, 64)
		if err != nil {
			return Ticks{}
		}
		t.all, t.stolen = t.all+n, n
	}
	return t
}
