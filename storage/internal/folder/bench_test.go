package folder

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkPutPart compares a part of 8 MiB with the least that any program must do for it: a copy into a file, and a
// sync.
func BenchmarkPutPart(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 512<<10)
	b.Run("folder", func(b *testing.B) {
		d := New(filepath.Join(b.TempDir(), "files"), "")
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := d.PutPart(b.Context(), "inbox", "key", i%100+1, int64(len(body)), onlyReader{bytes.NewReader(body)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		dir := b.TempDir()
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := copyBare(filepath.Join(dir, string(rune('a'+i%20))), onlyReader{bytes.NewReader(body)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func copyBare(path string, body io.Reader) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, body); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// onlyReader hides that a body can write itself, as the bodies of requests can't.
type onlyReader struct{ io.Reader }
