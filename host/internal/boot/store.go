package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/millrace-go/millrace/ops/cost"
	"github.com/millrace-go/millrace/storage"
	"github.com/millrace-go/millrace/storage/doorbell"
	"github.com/millrace-go/millrace/storage/sqlite"
)

// Settings name the store and how programs wake one another.
type Settings struct {
	drivers                          storage.Drivers
	store, doorbell, doorbellAddress *string
}

// AddSettings defines the flags of every program that opens a store. file is the store when nothing names another one.
func AddSettings(f *Flags, file string, drivers storage.Drivers) Settings {
	usage := []string{"the `URL` of the store; all programs of one system use the same."}
	for _, d := range drivers {
		usage = append(usage, d.Usage)
	}
	return Settings{
		drivers: drivers,
		store:   f.String("store", "sqlite:"+file, strings.Join(usage, "\n")),
		doorbell: f.String("doorbell", ":0", "the UDP `ADDRESS`, IP:PORT, at which other programs wake an idle worker when the store is in the cloud. "+
			"Port 0\ntakes a free port. The URL of a store that rings, such as redis://HOST/?prefix=NAME&bell=yes, is for networks without UDP: rings\n"+
			"go through it. "+off+" disables it: then workers poll, at least every 30 seconds. No effect on SQLite, which wakes workers\nitself"),
		doorbellAddress: f.String("doorbell-address", "", "the `ADDRESSES` at which other machines reach -doorbell, separated by commas, if they are not this\nmachine's own. No effect on SQLite"),
	}
}

// off as an address means none.
const off = "off"

// OpenStore opens the store that the settings name, with a doorbell if the store has none of its own. rings is nil
// without a doorbell.
func (s Settings) OpenStore(ctx context.Context, log *slog.Logger) (store *storage.Store, rings func() doorbell.Counts, err error) {
	return s.open(ctx, storage.OpenConfig{Logger: log})
}

// OpenExisting is OpenStore for a command on the store of other programs; see storage.OpenConfig.
func (s Settings) OpenExisting(ctx context.Context, log *slog.Logger) (*storage.Store, error) {
	store, _, err := s.open(ctx, storage.OpenConfig{Logger: log, Existing: true})
	return store, err
}

// File returns the path of a store in a file. It returns "" for any other store, and for a path that the driver
// refuses.
func (s Settings) File() string {
	if !strings.HasPrefix(*s.store, "sqlite:") {
		return ""
	}
	file, _ := sqlite.File(*s.store) // opening the store tells the error
	return file
}

func (s Settings) open(ctx context.Context, how storage.OpenConfig) (store *storage.Store, rings func() doorbell.Counts, err error) {
	cfg := doorbell.Config{Logger: how.Logger}
	if *s.doorbell != off && !s.through() {
		cfg.Listen = *s.doorbell
	}
	if *s.doorbellAddress != "" {
		cfg.Advertise = strings.Split(*s.doorbellAddress, ",")
	}
	if err := errors.Join(badFlag("doorbell", doorbell.Config{Listen: cfg.Listen}.Check()), badFlag("doorbell-address", doorbell.Config{Advertise: cfg.Advertise}.Check())); err != nil {
		return nil, nil, err
	}
	store, err = s.drivers.Open(ctx, *s.store, how)
	if errors.Is(err, storage.ErrInvalid) {
		return nil, nil, badFlag("store", err)
	}
	if err != nil || *s.doorbell == off || store.Rings() {
		return store, nil, err
	}
	if s.through() {
		rung, err := doorbell.ThroughLater(ctx, store, func(ctx context.Context) (*storage.Store, error) {
			return s.drivers.Open(ctx, *s.doorbell, storage.OpenConfig{Logger: how.Logger})
		}, how.Logger)
		if errors.Is(err, storage.ErrInvalid) {
			err = badFlag("doorbell", err)
		}
		if err != nil {
			return nil, nil, errors.Join(err, store.Close())
		}
		return rung, nil, nil
	}
	bell, err := doorbell.Over(store, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return bell.Store, bell.Counts, nil
}

// through reports that rings go through another store, which a URL names.
func (s Settings) through() bool { return strings.Contains(*s.doorbell, "://") }

// Close closes a store when a program's function returns, and adds the error to the function's own.
func Close(store *storage.Store, err *error) {
	closing := store.Close()
	var cause *sqlite.Error
	if errors.As(closing, &cause) && !cause.Fatal() { // the store's further text is for programs that go on
		closing = fmt.Errorf("stopped, but SQLite could not write its log back into the database file: %w. "+
			"Nothing is lost. Keep both files: the next start reads both", cause)
	}
	*err = errors.Join(*err, closing)
}

// AddPrices defines the flag of the price file. The returned value is set when the flags are parsed; nil means none.
func AddPrices(f *Flags) **cost.Prices {
	var prices *cost.Prices
	name := f.String("prices", "", "the JSON `FILE` with the prices of the store's requests, for the summary at the end:\n"+
		`{"currency": "EUR", "per10000": {"blob write": 0.1}}. No effect on SQLite, which costs nothing`)
	f.Check("prices", func() (err error) {
		if *name != "" {
			prices, err = readPrices(*name)
		}
		return err
	})
	return &prices
}

func readPrices(name string) (*cost.Prices, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	prices, err := cost.ReadPrices(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return prices, nil
}
