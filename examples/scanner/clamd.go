package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/millrace-go/millrace/files/valet"
)

// A clamd asks ClamAV's daemon at an address. The daemon must be near: nothing encrypts the connection.
type clamd struct{ addr string }

// scan sends a file by the command INSTREAM: chunks with their lengths before them, and an empty one at the end. An
// error means that there is no verdict, and the file is scanned again.
func (c clamd) scan(ctx context.Context, _ valet.File, content io.Reader) (valet.Verdict, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return valet.Verdict{}, fmt.Errorf("clamd: %w", err)
	}
	defer func() { _ = conn.Close() }()                                              // the answer was read
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends what waits
	defer stop()
	broken := send(conn, content) // perhaps because the daemon has answered before the end
	if broken != nil {
		_ = conn.(*net.TCPConn).CloseWrite() // else the daemon waits for the rest
	}
	answer, err := bufio.NewReader(io.LimitReader(conn, 4<<10)).ReadString(0)
	if err != nil {
		return valet.Verdict{}, fmt.Errorf("clamd: %w", errors.Join(broken, err))
	}
	answer = strings.TrimPrefix(strings.TrimSuffix(answer, "\x00"), "stream: ")
	virus, found := strings.CutSuffix(answer, " FOUND")
	switch {
	case found:
		return valet.Refuse("it has the virus " + virus), nil
	case strings.Contains(answer, "size limit exceeded"):
		return valet.Unclear("it is too large for the scanner"), nil // StreamMaxLength of clamd.conf; an operator decides
	case answer == "OK" && broken == nil:
		return valet.Pass(), nil
	}
	return valet.Verdict{}, errors.Join(fmt.Errorf("clamd: the answer is %q", answer), broken)
}

// send writes a command with a stream.
func send(w io.Writer, content io.Reader) error {
	if _, err := io.WriteString(w, "zINSTREAM\x00"); err != nil {
		return err
	}
	chunk := make([]byte, 4+64<<10)
	for {
		n, err := io.ReadFull(content, chunk[4:])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err // of the store: without an empty chunk there is no verdict
		}
		binary.BigEndian.PutUint32(chunk, uint32(n))
		if _, err := w.Write(chunk[:4+n]); err != nil || n == 0 {
			return err
		}
	}
}
