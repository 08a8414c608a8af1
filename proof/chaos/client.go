package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/channel"
	"github.com/millrace-go/millrace/sample/reservations"
)

const (
	perDate     = 200             // reservations for one date
	answerIn    = 5 * time.Second // how long the client waits for an answer
	burst       = 5 * time.Second // reservations come in bursts, so that workers hold messages when they die
	impatience  = 10              // one in so many clients gives up after its first attempt
	forgetful   = 50              // one in so many posts once more after the acknowledgement
	longestRest = time.Second     // between two attempts
)

// An order is a reservation that a client asks for.
type order struct {
	reservations.MakeReservation
	due       time.Duration // after the beginning
	impatient bool          // one attempt only
	again     bool          // posts once more after the acknowledgement

	tries int
	acked bool
}

// newOrders returns n orders over some time, for as many dates as make 200 each. The number of seats is enough for
// some of them.
func newOrders(n int, lasts time.Duration, now time.Time) (orders []*order, seats int) {
	dates := min(max(4, n/perDate), 300)
	first := now.AddDate(0, 0, 7)
	asked := 0
	for i := range n {
		o := &order{
			MakeReservation: reservations.MakeReservation{
				Date: first.AddDate(0, 0, i%dates).Format(time.DateOnly), Name: fmt.Sprintf("Guest %d", i),
				Email: fmt.Sprintf("guest-%d@example.org", i), Quantity: 1 + (i/dates)%4,
			},
			due:       (lasts * time.Duration(i) / time.Duration(n)).Truncate(burst),
			impatient: i%impatience == impatience-1,
			again:     i%forgetful == 0,
		}
		asked += o.Quantity
		orders = append(orders, o)
	}
	return orders, asked / dates * 6 / 10
}

// A client posts orders, some at a time.
type client struct {
	url  string
	http *http.Client
	j    *journal

	tries, acked, gaveUp atomic.Int64
}

func newClient(url string, j *journal) *client {
	return &client{url: url, j: j, http: &http.Client{Timeout: answerIn, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// postAll returns when every order is acknowledged or given up, or when ctx ends.
func (c *client) postAll(ctx context.Context, orders []*order, atATime int) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range atATime {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(orders) || !wait(ctx, time.Until(c.j.begun.Add(orders[i].due))) {
					return
				}
				c.post(ctx, orders[i])
			}
		})
	}
	all.Wait()
}

// post posts an order under one ID until it is acknowledged, or only once if it is impatient.
func (c *client) post(ctx context.Context, o *order) {
	o.ID = channel.NewID()
	for rest := 50 * time.Millisecond; ; rest = min(2*rest, longestRest) {
		o.tries++
		c.tries.Add(1)
		status, err := c.try(ctx, o.MakeReservation)
		switch {
		case err == nil && status == http.StatusAccepted:
			if !o.acked {
				c.acked.Add(1)
			}
			o.acked = true
			if !o.again {
				return
			}
			o.again = false
		case err == nil && status < http.StatusInternalServerError:
			c.j.fault(nothingFails, "a reservation is refused with %d", status)
			return
		case o.impatient:
			c.gaveUp.Add(1)
			return
		}
		if !wait(ctx, rest/2+rand.N(rest)) {
			return
		}
	}
}

// try posts once. It returns no error if the whole answer came.
func (c *client) try(ctx context.Context, m reservations.MakeReservation) (status int, err error) {
	body, err := json.Marshal(m)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/reservations", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
