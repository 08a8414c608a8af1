package child

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/bench/host"
)

// begun is the state at the beginning of a measurement.
type begun struct {
	mark
	client, server float64
	operations     int64
}

func (m *measurement) begin(ctx context.Context, at mark) (begun, error) {
	b := begun{mark: at}
	var err, err2, err3 error
	b.operations, err = m.c.Operations(ctx)
	b.server, err2 = m.server()
	b.client, err3 = host.OwnCPU() // last, because the reading of the server's costs CPU itself
	return b, errors.Join(err, err2, err3)
}

func (m *measurement) end(ctx context.Context, b begun, at mark) (*Sample, error) {
	client, err := host.OwnCPU()
	if err != nil {
		return nil, err
	}
	server, err := m.server()
	if err != nil {
		return nil, err
	}
	s := &Sample{N: at.n - b.n, Seconds: at.at.Sub(b.at).Seconds(), ClientCPU: client - b.client, ServerCPU: server - b.server,
		Twice: m.seen.repeats(), Operations: Unknown}
	if b.operations != Unknown {
		all, err := m.c.Operations(ctx)
		if err != nil {
			return nil, err
		}
		s.Operations = all - b.operations
	}
	return s, nil
}

// server is the CPU time that the server has used, in seconds.
func (m *measurement) server() (float64, error) {
	if m.spec.ServerPid == 0 {
		return 0, nil
	}
	return host.CPU(host.Proc, m.spec.ServerPid)
}
