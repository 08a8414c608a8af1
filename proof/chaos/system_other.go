//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

func clock() int64 { return time.Now().UnixNano() }

func diesWithUs() *syscall.SysProcAttr { return nil }

func mountTmpfs(string, string) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
