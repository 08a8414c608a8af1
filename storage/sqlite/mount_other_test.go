//go:build !linux

package sqlite

import "errors"

func mountTmpfs(dir, options string, again, readOnly bool) error { return errors.ErrUnsupported }

func unmount(dir string) error { return nil }

func mountBind(from, to string) error { return errors.ErrUnsupported }
