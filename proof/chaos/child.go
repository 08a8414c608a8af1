package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// childSpecIn is the environment's variable that makes a process of this program a child, with its spec in JSON.
const childSpecIn = "MILLRACE_CHAOS_CHILD"

// The roles of children. One without a role uses coordination.
const (
	roleWorker  = "worker"  // of the shop
	roleService = "service" // the bank, or the carrier
)

// runChild is the main function of a child. It returns when ctx ends.
func runChild(ctx context.Context, spec string, out io.Writer) error {
	var s struct{ Role string }
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	switch s.Role {
	case roleWorker:
		return runShopWorker(ctx, spec)
	case roleService:
		return runService(ctx, spec, out)
	}
	c, err := newChild(spec)
	if err != nil {
		return err
	}
	return c.run(ctx, out)
}

// lifeOf names a process of a program.
func lifeOf(name string, pid int) string { return fmt.Sprintf("%s-%d", name, pid) }

// childOf returns a program whose processes are children of this one.
func (w *world) childOf(name, says string, spec any) (*program, error) {
	bin, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	p := &program{name: name, bin: bin, env: []string{childSpecIn + "=" + string(text)}, dir: w.dir, logs: w.dir, says: says, j: w.j}
	w.programs = append(w.programs, p)
	return p, nil
}
