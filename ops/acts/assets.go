package acts

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/millrace-go/millrace/files/assets"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// Pushed are static files that browsers read without the program.
type Pushed struct {
	Base  string `json:"base"`  // what stands before their names
	Files int    `json:"files"` // all that are there now, of this version
}

// A pushInput is what assets push takes.
type pushInput struct {
	folder, container string
}

// Check implements the check of an input.
func (in *pushInput) Check() error {
	if storage.CheckName(in.container) != nil {
		return act.Usage("--container %s: want 3 to 50 lower-case letters, digits and single hyphens, a letter first", act.Word(in.container))
	}
	return nil
}

func assetActs() []*act.Act {
	return []*act.Act{act.New(act.Act{Noun: "assets", Verb: "push", Role: act.Operator, Why: act.May, Disk: true,
		About: "put static files where browsers read them without the program",
		More: "FOLDER is the folder that the program embeds; hidden files in it stay out. Each file gets the name by which the program's pages know it. A file that is there already " +
			"stays as it is, so a repeat is harmless, and files of older versions stay. The line that it prints is the URL for the program's setting: " +
			"the sample's --assets, Base in assets.Config. Pages use it once all files of their version are there. Only Azure Storage serves files " +
			"to browsers.",
	}, func(in *pushInput) []act.Field {
		in.container = "web"
		folder := act.Text(&in.folder, "folder", "the folder with the files").At("FOLDER")
		folder.Kind = act.KindFile
		return []act.Field{folder, act.Text(&in.container, "container", "the `CONTAINER` for these files alone, which anybody may read")}
	}, pushAssets)}
}

func pushAssets(ctx context.Context, c *act.Call, in *pushInput) error {
	set, err := assets.New(os.DirFS(in.folder), assets.Config{})
	if errors.Is(err, fs.ErrNotExist) {
		return act.Nothing("assets: there is no folder %s", storage.Quote(in.folder))
	}
	if err != nil {
		return err
	}
	base, err := set.Push(ctx, c.Store, in.container)
	if err != nil {
		return err
	}
	return c.Say(Pushed{base, len(set.Names())}, "%s", base)
}
