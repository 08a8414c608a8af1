//go:build !linux

package main

import "syscall"

func diesWithUs() *syscall.SysProcAttr { return nil }
