package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/storage/driver"
)

// Wipe deletes all queues, containers and tables whose names begin with the prefix of a place, given as to Open. It
// is for tests on an account that others also use; it refuses a place without a prefix.
func Wipe(ctx context.Context, rest string) error {
	s, err := open(ctx, rest, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.prefix == "" {
		return fmt.Errorf("%w: the place has no prefix; a whole account is never wiped", driver.ErrInvalid)
	}
	return s.wipe(ctx, s.prefix+"-")
}

// wipe deletes all queues, containers and tables whose names begin with begin.
func (s *store) wipe(ctx context.Context, begin string) error {
	queues := s.queues.NewListQueuesPager(nil)
	err := s.wipeAll(ctx, "queue", begin, queues.More, func(ctx context.Context) (names []string, err error) {
		page, err := queues.NextPage(ctx)
		for _, q := range page.Queues {
			names = append(names, *q.Name)
		}
		return names, err
	}, func(ctx context.Context, name string) error {
		_, err := s.queues.DeleteQueue(ctx, name, nil)
		return err
	})
	if err != nil {
		return err
	}
	containers := s.blobs.NewListContainersPager(nil)
	err = s.wipeAll(ctx, "blob", begin, containers.More, func(ctx context.Context) (names []string, err error) {
		page, err := containers.NextPage(ctx)
		for _, c := range page.ContainerItems {
			names = append(names, *c.Name)
		}
		return names, err
	}, func(ctx context.Context, name string) error {
		_, err := s.blobs.DeleteContainer(ctx, name, nil)
		return err
	})
	if err != nil {
		return err
	}
	tables := s.tables.NewListTablesPager(nil)
	return s.wipeAll(ctx, "table", forTables().Replace(begin), tables.More, func(ctx context.Context) (names []string, err error) {
		page, err := tables.NextPage(ctx)
		for _, t := range page.Tables {
			names = append(names, *t.Name)
		}
		return names, err
	}, func(ctx context.Context, name string) error {
		_, err := s.tables.DeleteTable(ctx, name, nil)
		return err
	})
}

// wipeAll lists all of one kind, page by page, and deletes those whose names begin with begin.
func (s *store) wipeAll(ctx context.Context, kind, begin string, more func() bool, next func(context.Context) ([]string, error), remove func(context.Context, string) error) error {
	p := part{s: s, kind: kind, name: begin}
	for more() {
		var names []string
		err := p.do(ctx, p.call("list", always), func(ctx context.Context) (err error) {
			names, err = next(ctx)
			return err
		})
		if err != nil {
			return &driver.Error{Op: "list", Resource: kind + " names", Err: err}
		}
		for _, name := range names {
			if !strings.HasPrefix(name, begin) {
				continue
			}
			err := p.do(ctx, p.call("delete", always), func(ctx context.Context) error { return gone(remove(ctx, name)) })
			if err != nil && !errors.Is(err, driver.ErrNotFound) { // an earlier try may have deleted it
				return &driver.Error{Op: "delete", Resource: kind + " " + name, Err: err}
			}
		}
	}
	return nil
}
