package servers

import (
	"os/exec"
	"syscall"
)

// DieWithUs makes a process that is not started yet end when this one is killed.
func DieWithUs(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
