package main

import "syscall"

// diesWithUs ends a process of another program when this one is killed.
func diesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
