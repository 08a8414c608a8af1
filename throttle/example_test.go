package throttle_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/millrace-go/millrace/throttle"
)

// Each account may send two orders a minute. An order that was accepted may be sent again.
func Example() {
	limiter, err := throttle.NewRateLimiter("orders", throttle.Config{
		Tenant: func(r *http.Request) string { account, _, _ := r.BasicAuth(); return account }, // behind what checks it
		ID:     func(r *http.Request) string { return r.Header.Get("Idempotency-Key") },         // by which the handler knows repeats
		Quotas: []throttle.Quota{{Name: "burst", Amount: 2, Per: time.Minute}},
	})
	if err != nil {
		panic(err)
	}
	h := limiter.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	send := func(id string) {
		r := httptest.NewRequest("POST", "/orders", nil)
		r.SetBasicAuth("ada", "secret")
		r.Header.Set("Idempotency-Key", id)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(id, w.Code)
	}
	send("first")
	send("second")
	send("third")
	send("first")
	// Output:
	// first 202
	// second 202
	// third 429
	// first 202
}
