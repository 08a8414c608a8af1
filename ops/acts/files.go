package acts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/files/valet"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// A File is a file as it is.
type File struct {
	ID     string      `json:"id"`
	State  valet.State `json:"state"`
	Reason string      `json:"reason,omitempty"`
	Name   string      `json:"name"`
	Type   string      `json:"type"`
	Size   int64       `json:"size"`
	Owner  string      `json:"owner"`
	Rule   string      `json:"rule,omitempty"`
	For    string      `json:"for,omitempty"`
	SHA256 string      `json:"sha256,omitempty"`
	Made   time.Time   `json:"made"`
	Until  time.Time   `json:"until"`
}

// A FileOrdered is what an operator has asked of a file.
type FileOrdered struct {
	ID     string `json:"id"`
	Result string `json:"result"` // asked
}

// Origins are the pages whose scripts may send bytes to the store itself.
type Origins struct {
	Origins []string `json:"origins"`
}

// A fileInput is what acts on files take.
type fileInput struct {
	act.Page
	id, state, owner string
	origins          []string
}

const fileMore = " A worker carries it out."

func fileActs() []*act.Act {
	order := func(verb, what, about, more string, role act.Role, why, sure act.Asked, needs valet.State, give func(*valet.Valet, context.Context, string, string) error) *act.Act {
		return act.New(act.Act{Noun: "files", Verb: verb, Role: role, Why: why, Sure: sure, About: about, More: more + fileMore}, func(in *fileInput) []act.Field {
			return []act.Field{act.Text(&in.id, strings.ToLower(what), "which one").At(what).ShownAs(withoutKey)}
		}, func(ctx context.Context, c *act.Call, in *fileInput) error {
			v, err := newValet(c)
			if err == nil {
				err = mayOrder(ctx, v, in.id, needs)
			}
			if err == nil && c.DryRun {
				return c.Say(FileOrdered{withoutKey(in.id), selected}, "Would be asked for %s.", withoutKey(in.id))
			}
			if err == nil {
				err = give(v, ctx, in.id, cmp.Or(c.Why, "no reason was given"))
			}
			if err != nil {
				return err
			}
			return c.Say(FileOrdered{withoutKey(in.id), "asked"}, "Asked for %s.", withoutKey(in.id))
		})
	}
	return []*act.Act{
		act.New(act.Act{Noun: "files", Verb: "list", Role: act.Viewer, About: "list the files that have come, or may come, by keys",
			More: "STATE is granted (bytes may come), arrived (being checked), held (an operator has to look), clean, rejected, expired, revoked or deleted. " +
				"Files that have ended are forgotten after a week.",
		}, func(in *fileInput) []act.Field {
			return append(act.List(&in.Page, "files", "IDs"),
				act.Text(&in.state, "state", "only files in this `STATE`").OneOf("granted", "arrived", "held", "clean", "rejected", "expired", "revoked", "deleted"),
				act.Text(&in.owner, "owner", "only files of this `OWNER`"))
		}, listFiles),
		act.New(act.Act{Noun: "files", Verb: "show", Role: act.Viewer, About: "show a file"}, func(in *fileInput) []act.Field {
			return []act.Field{act.Text(&in.id, "file", "the file's ID").At("FILE")}
		}, showFile),
		order("revoke", "KEY", "end keys before their time", "By the ID of a file it ends the upload, and all keys of the file so far; by the ID of another key, or by a key's URL, that key. A file that was accepted stays. "+
			"A key of the store that was given out already is good for 2 minutes to read, or 15 to write what nobody accepts.", act.Operator, act.May, act.Not, anyState, (*valet.Valet).Revoke),
		order("revoke-owner", "OWNER", "end all keys of an owner before their time", "Files that were accepted stay.", act.Operator, act.May, act.Not, "", (*valet.Valet).RevokeOwner),
		order("release", "FILE", "let a file pass that the scanner could not judge", "Size, type and digest are checked again. A file whose check has failed is scanned again.", act.Admin, act.Must, act.Not, valet.StateHeld, (*valet.Valet).Release),
		order("delete", "FILE", "delete a file that was accepted", "Nothing happens to a file in another state.", act.Admin, act.Must, act.Must, valet.StateClean, (*valet.Valet).Delete),
		revokeAllAct(),
		act.New(act.Act{Noun: "files", Verb: "log", Role: act.Viewer, About: "list what was done with keys of files, the newest first",
			More: "A key that is refused, or renewed, again and again has a row a minute. What operators do is in audit list.",
		}, func(in *logInput) []act.Field {
			in.since, in.limit = 24*time.Hour, 100
			return []act.Field{
				act.Duration(&in.since, "since", "go back so much `TIME`", time.Second, act.MaxAhead),
				act.Text(&in.file, "file", "only what is about this `FILE`, by its ID"),
				act.Limit(&in.limit, "rows"),
			}
		}, logOfFiles),
		act.New(act.Act{Noun: "files", Verb: "cors", Role: act.Operator, Why: act.May, About: "show or set which pages may send bytes to the store itself",
			More: "An origin is like https://example.org. Where bytes go through the program, as on SQLite, nothing has to be set. The rules of others stay.",
		}, func(in *fileInput) []act.Field {
			return []act.Field{act.Texts(&in.origins, "origin", "set this `ORIGIN`, in the place of those before; may be given several times")}
		}, corsOfFiles),
	}
}

// revokeAllAct is the act that ends all keys.
func revokeAllAct() *act.Act {
	return act.New(act.Act{Noun: "files", Verb: "revoke-all", Role: act.Admin, Why: act.Must, Sure: act.Must, About: "end all keys of the store before their time",
		More: "It deletes the secrets that have signed them. All webs know that within a minute; keys that are made until then end, too.",
	}, nil, func(ctx context.Context, c *act.Call, _ *act.None) error {
		v, err := newValet(c)
		if err == nil && !c.DryRun {
			err = v.RevokeAll(ctx, c.Why)
		}
		if err != nil {
			return err
		}
		if c.DryRun {
			return c.Say(FileOrdered{"all keys", selected}, "All keys would end.")
		}
		return c.Say(FileOrdered{"all keys", "revoked"}, "All keys end within a minute.")
	})
}

// anyState is of an act on a file in any state.
const anyState valet.State = "any"

// withoutKey is what people and logs see of an argument: an ID, or that it was a key.
func withoutKey(id string) string {
	if valet.HasKey(id) {
		return "a key by its URL"
	}
	return id
}

// mayOrder says where an act would do nothing. "" is of an act on no file.
func mayOrder(ctx context.Context, v *valet.Valet, id string, needs valet.State) error {
	file, _, _ := strings.Cut(id, "~")
	if _, ok := channel.IDTime(path.Base(file)); needs == "" || valet.HasKey(id) || needs == anyState && strings.Contains(id, "~") && !ok {
		return nil // a folder's key has no document
	}
	f, err := v.File(ctx, file)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return act.Nothing("no file %s: nobody has made it, or it ended more than a week ago", storage.Quote(file))
	case err != nil:
		return err
	case needs != anyState && f.State != needs, f.State.Ended():
		return act.Nothing("file %s is %s, so there is nothing to do", storage.Quote(file), f.State)
	}
	return nil
}

// A logInput is what the log of keys takes.
type logInput struct {
	auditInput
	file string
}

// logOfFiles tells what was done with keys.
func logOfFiles(ctx context.Context, c *act.Call, in *logInput) error {
	if err := c.Table("Nobody has used a key.", "WHEN", "WHO", "FROM", "ACT", "WHY", "RESULT"); err != nil {
		return err
	}
	now, rows := time.Now(), 0
	for e, err := range valet.Log(c.Store).List(ctx, now.Add(-in.since), now.Add(time.Hour)) {
		if err != nil {
			return err
		}
		if in.file != "" && e.On != in.file && !strings.HasPrefix(e.On, in.file+"~") {
			continue
		}
		if rows++; rows > in.limit {
			c.Next("limit", fmt.Sprint(2*in.limit))
			break
		}
		if err := c.Row(e, act.Ago(e.Time), e.Who, e.From, act.Short(e.Act+" "+e.On), act.Short(e.Why), act.Short(e.Result)); err != nil {
			return err
		}
	}
	return nil
}

// newValet is a valet that gives no keys.
func newValet(c *act.Call) (*valet.Valet, error) {
	routes, err := channel.NewRoutes(valet.Route(), channel.Event[valet.Rejected](), channel.Event[valet.Uploaded]())
	if err != nil {
		return nil, err
	}
	channels, err := channel.New(c.Store, routes, "/millrace")
	if err != nil {
		return nil, err
	}
	return valet.New(channels, valet.Config{Audited: true})
}

func newFile(f valet.File) File {
	return File{ID: f.ID, State: f.State, Reason: f.Reason, Name: f.Name, Type: f.Type, Size: f.Size, Owner: f.Owner, Rule: f.Rule, For: f.For, SHA256: f.SHA256, Made: f.Made, Until: f.Until}
}

func listFiles(ctx context.Context, c *act.Call, in *fileInput) error {
	v, err := newValet(c)
	if err != nil {
		return err
	}
	some := func(yield func(valet.File, error) bool) {
		for f, err := range v.List(ctx, in.Prefix, in.After) {
			if err == nil && (in.state != "" && string(f.State) != in.state || in.owner != "" && f.Owner != in.owner) {
				continue
			}
			if !yield(f, err) {
				return
			}
		}
	}
	return act.Listing[valet.File]{
		None: "No files.", Head: []string{"ID", "STATE", "NAME", "TYPE", "BYTES", "OWNER", "MADE"}, Name: func(f valet.File) string { return f.ID },
		Row: func(f valet.File) (any, []any) {
			return newFile(f), []any{f.ID, string(f.State), f.Name, f.Type, f.Size, f.Owner, act.Ago(f.Made)}
		},
		Corrupt: func(f valet.File, fault string) any { return File{ID: f.ID, Reason: fault} },
	}.Tell(c, in.Page, iter.Seq2[valet.File, error](some))
}

func showFile(ctx context.Context, c *act.Call, in *fileInput) error {
	v, err := newValet(c)
	if err != nil {
		return err
	}
	f, err := v.File(ctx, in.id)
	if errors.Is(err, storage.ErrNotFound) {
		return act.Nothing("no file %s: nobody has made it, or it ended more than a week ago", storage.Quote(in.id))
	}
	if err != nil {
		return err
	}
	return errors.Join(
		c.Table("", "ID", "STATE", "NAME", "TYPE", "BYTES", "OWNER", "MADE"),
		c.Row(newFile(f), f.ID, string(f.State), f.Name, f.Type, f.Size, f.Owner, act.Ago(f.Made)),
		c.Say(nil, "\nReason: %s\nFor: %s\nSHA-256: %s\nThe upload ends: %s", cmp.Or(f.Reason, "none"), cmp.Or(f.For, "nothing"), cmp.Or(f.SHA256, act.Unknown), act.Clock(f.Until)))
}

func corsOfFiles(ctx context.Context, c *act.Call, in *fileInput) error {
	v, err := newValet(c)
	if err != nil {
		return err
	}
	now, err := v.Origins(ctx, in.origins)
	if errors.Is(err, storage.ErrUnsupported) {
		return fmt.Errorf("nothing has to be set: %w", err)
	}
	if err != nil {
		return err
	}
	return c.Say(Origins{append([]string{}, now...)}, "%s", cmp.Or(strings.Join(now, "\n"), "No origins."))
}
