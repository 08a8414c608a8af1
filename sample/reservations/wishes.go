package reservations

import (
	"context"
	"fmt"
	"path"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/storage"
)

const (
	wishRule  = "wish"
	filesPath = "/files/" // of the site

	// MaxWish is how many bytes a menu wish may have.
	MaxWish = 10 << 20
)

// WishTypes are the media types that a menu wish may have. None of them can have a script that a browser runs.
func WishTypes() []string {
	return []string{"image/png", "image/jpeg", "image/webp", "application/pdf"}
}

// Files returns the keys and the files of a store's menu wishes. The web gives keys, and the worker checks what comes.
// Where the store keeps no files, no wish is taken, and the worker has handlers for messages that never come.
func Files(c *channel.Channels, cfg valet.Config) (*valet.Valet, error) {
	cfg.URL = filesPath
	if KeepsFiles(c.Store()) {
		cfg.Rules = map[string]valet.Rules{wishRule: {MaxSize: MaxWish, Types: WishTypes()}}
	}
	return valet.New(c, cfg)
}

// KeepsFiles reports whether a store keeps files. Redis does if its URL names a folder.
func KeepsFiles(s *storage.Store) bool { return s.Files("file-inbox").Takes() == nil }

// UploadOf is what a guest may upload for a reservation: u has the file's name, type, size and digest. The owner is the
// reservation's [Key], and not its ID, because logs hold owners. The folder begins with the date, so that all wishes of
// a date can be found.
func UploadOf(s Status, u valet.Upload) valet.Upload {
	u.Rule, u.Owner, u.Folder = wishRule, Key(s.ID), folderOf(s.Date, s.ID)
	return u
}

// Wish is what is known of the files that a guest has added to a reservation. The newest file counts, by when its
// upload began; file IDs have that order.
type Wish struct {
	File    string `json:"file,omitempty"` // ID of the newest file that was accepted; empty for none
	Name    string `json:"name,omitempty"` // as the guest knows the file
	Type    string `json:"type,omitempty"`
	Refused string `json:"refused,omitempty"` // ID of the newest file of all, if it wasn't accepted
	Reason  string `json:"reason,omitempty"`  // why it wasn't
}

// Wished folds an Uploaded.
func (s Status) Wished(e valet.Uploaded) Status {
	if e.ID > s.Wish.File {
		s.Wish.File, s.Wish.Name, s.Wish.Type = e.ID, e.Name, e.Type
	}
	if s.Wish.File > s.Wish.Refused {
		s.Wish.Refused, s.Wish.Reason = "", ""
	}
	return s
}

// Unwished folds a Rejected.
func (s Status) Unwished(e valet.Rejected) Status {
	if e.ID > s.Wish.File && e.ID > s.Wish.Refused {
		s.Wish.Refused, s.Wish.Reason = e.ID, e.Reason
	}
	return s
}

// wishes deletes files of wishes that nobody needs any more. The zero wishes has none.
type wishes struct{ files *valet.Valet }

// replace leaves of a reservation's accepted files the newest one alone. In any order of events the last of them finds
// all files.
func (w wishes) replace(ctx context.Context, e valet.Uploaded) error {
	newest := ""
	for f, err := range w.files.List(ctx, path.Dir(e.ID)+"/", "") {
		if err != nil {
			return fmt.Errorf("wishes: %w", err)
		}
		if f.State != valet.StateClean {
			continue
		}
		if newest != "" {
			if err := w.files.Delete(ctx, newest, "replaced by its owner"); err != nil {
				return fmt.Errorf("wishes: %w", err)
			}
		}
		newest = f.ID // the list is in the order of IDs
	}
	return nil
}

// cancel deletes the files of a reservation that is cancelled.
func (w wishes) cancel(ctx context.Context, e ReservationCancelled) error {
	return w.forget(ctx, folderOf(e.Date, e.ID), "the reservation is cancelled")
}

func folderOf(date, id string) string { return date + "/wish-" + Key(id) }

// forget deletes all files in and below a folder, and ends what hasn't become a file.
func (w wishes) forget(ctx context.Context, folder, why string) error {
	if w.files == nil {
		return nil
	}
	for f, err := range w.files.List(ctx, folder+"/", "") {
		switch {
		case err != nil:
		case f.State == valet.StateClean:
			err = w.files.Delete(ctx, f.ID, why)
		case !f.State.Ended():
			err = w.files.Revoke(ctx, f.ID, why)
		}
		if err != nil {
			return fmt.Errorf("wishes: %w", err)
		}
	}
	return nil
}

func wishOf(e valet.Uploaded) string   { return e.Owner }
func unwishOf(e valet.Rejected) string { return e.Owner }
