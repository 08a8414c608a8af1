package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Look returns what is in the file of a spool, whether a program has it open or not. It changes nothing. An entry that
// was set aside counts as refused until the next start tries it again. Without a file the error matches fs.ErrNotExist.
func Look(ctx context.Context, path string) (st State, err error) {
	err = withFile(ctx, path, func(file string, local *storage.Store) error {
		its, err := readOwner(ctx, local)
		if err != nil {
			return err
		}
		st.Program, st.Store = its.Program, its.Store
		aside := map[string]bool{}
		for b, err := range local.Blobs(refusals).List(ctx, "") {
			if err != nil {
				return fmt.Errorf("spool: %w", err)
			}
			aside[b.Key] = true
		}
		for b, err := range local.Blobs(container).List(ctx, "") {
			if err != nil {
				return fmt.Errorf("spool: %w", err)
			}
			e, ok := parseKey(b.Key)
			if !ok {
				return notASpool(file, b.Key)
			}
			st.Bytes += b.Size
			switch {
			case aside[b.Key]:
				st.Refused += e.messages
				continue
			case st.Waiting == 0:
				st.Oldest = b.Modified
			}
			st.Waiting += e.messages
		}
		return nil
	})
	return st, err
}

// Release makes the file of a spool nobody's: the program that opens it next gets it with its messages. It is for a
// program that has got another name, and for a store that has got another place. The error matches [ErrInUse] while a
// program has the file open, and fs.ErrNotExist without a file.
func Release(ctx context.Context, path string) error {
	return withFile(ctx, path, func(file string, local *storage.Store) error {
		lock, err := lockFile(file)
		if err == nil {
			err = local.Blobs(owners).Delete(ctx, ownerKey, storage.Condition{})
			err = errors.Join(err, lock.close())
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return fmt.Errorf("spool: %w", err)
		}
		return nil
	})
}

// withFile opens the file of a spool for a moment, and leaves an empty file as it is.
func withFile(ctx context.Context, path string, do func(file string, local *storage.Store) error) (err error) {
	file, err := realPath(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("spool: %w", err)
	case info.Size() == 0:
		return nil // the driver would make a database of it
	}
	local, err := sqlite.OpenSpool(ctx, "sqlite:"+file+"?wake=off", slog.New(slog.DiscardHandler), true)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	return do(file, local)
}

// refuseForeign refuses a file that is no spool, before a lock file is made beside it. It leaves to the opening for use
// what else may be wrong.
func refuseForeign(ctx context.Context, file string) error {
	err := withFile(ctx, file, func(string, *storage.Store) error { return nil })
	if errors.Is(err, storage.ErrInvalid) {
		return err
	}
	return nil
}

func notASpool(file, key string) error {
	return fmt.Errorf("spool: %w: %s is not a spool, or one of a newer version: it has a blob %s", storage.ErrInvalid, storage.Quote(file), storage.Quote(key))
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
