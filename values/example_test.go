package values_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/storage/sqlite"
	"github.com/millrace-go/millrace/values"
)

// Stock is a value object: how many pieces of an article there are.
type Stock struct {
	Pieces int `json:"pieces"`
}

// A document takes each message once, however often it comes.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "values")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	channels, err := channel.New(store, &channel.Routes{}, "/shop") // no messages are sent
	if err != nil {
		log.Fatal(err)
	}
	stock := values.New(channels, "stock", values.Config[Stock]{Initial: func(string) Stock { return Stock{Pieces: 10} }})

	soldOut := errors.New("sold out")
	buy := func(id string, n int) values.Change[Stock] {
		e := &channel.Envelope{ID: id, Kind: "shop.buy.v1", Data: fmt.Appendf(nil, `{"pieces":%d}`, n)}
		return values.Change[Stock]{Envelope: e, Fold: func(s Stock) (Stock, []channel.Message, error) {
			if s.Pieces -= n; s.Pieces < 0 {
				return s, nil, soldOut
			}
			return s, nil, nil
		}}
	}
	first := buy("order-1", 3)
	for _, o := range stock.Apply(ctx, "teapot", []values.Change[Stock]{first, buy("order-2", 9), first, buy("order-1", 4)}, nil) {
		fmt.Println(o.Err)
	}
	s, err := stock.Get(ctx, "teapot", "")
	fmt.Printf("%+v, version %d, %v\n", s.Value, s.Version, err)
	// Output:
	// <nil>
	// sold out
	// <nil>
	// another message with the same ID and other content has been applied
	// {Pieces:7}, version 1, <nil>
}
