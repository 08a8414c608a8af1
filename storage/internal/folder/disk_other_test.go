//go:build !linux

package folder

import "testing"

func smallDisk(t *testing.T, _ string) string {
	t.Helper()
	t.Skip("only Linux can mount a small disk")
	return ""
}
