package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// An azurite stands for Azure Storage, with its data on disk.
//
// It writes its catalogue every five seconds. A kill loses what it has acknowledged since then. Azure Storage
// wouldn't lose that, and no client could make up for it. So before the kill, in the middle of its work, all its
// connections are closed and a signal makes it write.
type azurite struct {
	dir      string // scripts/azurite
	location string
	log      string // file
	ports    [3]int // blob, queue, table

	cmd   *exec.Cmd
	stdin io.Closer // run.js ends when this closes
	ended chan struct{}
}

var errNoAzurite = errors.New("there is no Azurite here: run scripts/setup.sh, which needs npm")

const (
	account    = "chaos"
	accountKey = "bWlsbHJhY2U="
)

func newAzurite(root, dir string) (*azurite, error) {
	a := &azurite{dir: filepath.Join(root, "scripts", "azurite"), location: filepath.Join(dir, "azurite"), log: filepath.Join(dir, "azurite.log")}
	if _, err := os.Stat(filepath.Join(a.dir, "node_modules", "azurite")); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoAzurite, err)
	}
	for i := range a.ports {
		var err error
		if a.ports[i], err = freePort(azureStore); err != nil {
			return nil, err
		}
	}
	return a, os.MkdirAll(a.location, 0o700)
}

func (a *azurite) addr(i int) string { return fmt.Sprintf("127.0.0.1:%d", a.ports[i]) }

// place is the part after "azure:" in a store's URL, for the addresses of the three services.
func place(blob, queue, table string) string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%[1]s;AccountKey=%[2]s;BlobEndpoint=http://%[3]s/%[1]s;QueueEndpoint=http://%[4]s/%[1]s;TableEndpoint=http://%[5]s/%[1]s;",
		account, accountKey, blob, queue, table)
}

func (a *azurite) start(ctx context.Context) error {
	file, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the process has its own
	before := a.count("is successfully listening at")
	args := []string{"run.js", "--location", a.location, "--silent", "--disableTelemetry"}
	for i, service := range []string{"blob", "queue", "table"} {
		// An hour, in seconds. With the default of five, clients send requests on connections that have just closed.
		args = append(args, "--"+service+"Port", fmt.Sprint(a.ports[i]), "--"+service+"KeepAliveTimeout", "3600")
	}
	a.cmd = exec.Command("node", args...)
	a.cmd.Dir, a.cmd.Env = a.dir, append(os.Environ(), "AZURITE_ACCOUNTS="+account+":"+accountKey)
	a.cmd.Stdout, a.cmd.Stderr = file, file
	a.cmd.SysProcAttr = diesWithUs()
	if a.stdin, err = a.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := a.cmd.Start(); err != nil {
		return fmt.Errorf("start Azurite: %w", err)
	}
	a.ended = make(chan struct{})
	go func() {
		_ = a.cmd.Wait() // how it ended is in ProcessState
		close(a.ended)
	}()
	err = until(ctx, time.Minute, func() (bool, error) {
		select {
		case <-a.ended:
			return false, fmt.Errorf("it has ended: %v", a.cmd.ProcessState)
		default:
			return a.count("is successfully listening at") >= before+3, nil
		}
	})
	if err != nil {
		return fmt.Errorf("start Azurite, see %s: %w", a.log, err)
	}
	return nil
}

// count counts how often the log holds a text.
func (a *azurite) count(text string) int {
	said, err := os.ReadFile(a.log)
	if err != nil {
		return 0 // it has not started yet
	}
	return bytes.Count(said, []byte(text))
}

// kill ends Azurite, after it has written what it has acknowledged. No client may be connected.
func (a *azurite) kill(ctx context.Context) error {
	before := a.count("service successfully closed")
	_ = a.cmd.Process.Signal(syscall.SIGTERM) // if it has ended, the wait below says so
	err := until(ctx, 30*time.Second, func() (bool, error) {
		return a.count("service successfully closed") >= before+3, nil
	})
	a.close()
	if err != nil {
		return fmt.Errorf("write Azurite's data, see %s: %w", a.log, err)
	}
	return nil
}

// close ends Azurite at once.
func (a *azurite) close() {
	if a.cmd == nil || a.ended == nil {
		return
	}
	_ = a.cmd.Process.Kill() // it may have ended
	<-a.ended
	_ = a.stdin.Close()
}

// trouble returns what Azurite's log says besides its starts and stops.
func (a *azurite) trouble() string {
	said, err := os.ReadFile(a.log)
	if err != nil {
		return err.Error()
	}
	var odd []string
	for line := range strings.Lines(string(said)) {
		if !strings.HasPrefix(line, "Azurite ") {
			odd = append(odd, strings.TrimSpace(line))
		}
	}
	return strings.Join(odd, " | ")
}
