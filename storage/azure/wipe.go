package azure

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/storage"
)

// Wipe deletes all queues, containers and tables whose names begin with the prefix of a place, given as to Open. It is for
// tests on an account that others use, too; without a prefix it refuses.
func Wipe(ctx context.Context, rest string) error {
	opened, err := Open(ctx, rest)
	if err != nil {
		return err
	}
	s := opened.(*store)
	defer s.Close()
	if s.prefix == "" {
		return fmt.Errorf("%w: the place has no prefix; all of an account is never wiped", storage.ErrInvalid)
	}
	queues := s.queues.NewListQueuesPager(nil)
	for queues.More() {
		page, err := queues.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, q := range page.Queues {
			if strings.HasPrefix(*q.Name, s.prefix+"-") {
				if _, err := s.queues.DeleteQueue(ctx, *q.Name, nil); err != nil {
					return err
				}
			}
		}
	}
	containers := s.blobs.NewListContainersPager(nil)
	for containers.More() {
		page, err := containers.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, c := range page.ContainerItems {
			if strings.HasPrefix(*c.Name, s.prefix+"-") {
				if _, err := s.blobs.DeleteContainer(ctx, *c.Name, nil); err != nil {
					return err
				}
			}
		}
	}
	tablePrefix := forTables().Replace(s.prefix + "-")
	tables := s.tables.NewListTablesPager(nil)
	for tables.More() {
		page, err := tables.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, t := range page.Tables {
			if strings.HasPrefix(*t.Name, tablePrefix) {
				if _, err := s.tables.DeleteTable(ctx, *t.Name, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
