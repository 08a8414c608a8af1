package throttle

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Refusal is why a rate limiter didn't let a request through. It is an error, and a handler that answers the request.
type Refusal struct {
	memory   *memory
	claim    claim         // as it would have been
	violated uint8         // quotas, a bit for each; none if the queue is too long
	wait     time.Duration // until the request can be let through
}

// Status is the status of the answer: 429 where a quota is used up, 503 where the queue is too long.
func (x *Refusal) Status() int {
	if x.violated == 0 {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// Quotas are the names of the quotas that are used up. Where the queue is too long, that is "backlog".
func (x *Refusal) Quotas() []string {
	if x.violated == 0 {
		return []string{backlogName}
	}
	var names []string
	for i := range x.claim.plan.rules {
		if x.violated>>i&1 != 0 {
			names = append(names, x.claim.plan.rules[i].Name)
		}
	}
	return names
}

// RetryAfter is when the request may be sent again, in whole seconds. It is never too early for the quotas as they
// are now. For each tenant it is later by another part of a quarter, up to a minute, so that not all come back at
// once.
func (x *Refusal) RetryAfter() time.Duration {
	seconds := inSeconds(int64(x.wait))
	spread := min(seconds/4, 59) + 1
	return time.Duration(seconds+int64(x.claim.who.hash%uint64(spread+1))) * time.Second
}

// Error tells the rate limiter and the quotas, and not the tenant.
func (x *Refusal) Error() string {
	if x.violated == 0 {
		return fmt.Sprintf("throttle: rate limiter %s: the queue is too long; send the request again in %v", x.memory.name, x.RetryAfter())
	}
	return fmt.Sprintf("throttle: rate limiter %s: used up: %s; send the request again in %v", x.memory.name, strings.Join(x.Quotas(), ", "), x.RetryAfter())
}

// SetFields sets what clients read in the header of an answer: Retry-After, and where a quota is used up,
// RateLimit-Policy and RateLimit. ServeHTTP calls it.
func (x *Refusal) SetFields(h http.Header) {
	h.Set("Retry-After", strconv.FormatInt(int64(x.RetryAfter()/time.Second), 10))
	h.Set("Cache-Control", "no-store")
	if x.violated != 0 {
		x.claim.setFields(h, x.memory.key, x.violated, x.wait)
	}
}

// ServeHTTP answers with a problem of RFC 9457, of the types that the draft of the RateLimit fields registers.
func (x *Refusal) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	x.SetFields(w.Header())
	w.Header().Set("Content-Type", "application/problem+json")
	status, name, title, detail := x.Status(), "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded", "The quota is used up."
	if status == http.StatusServiceUnavailable {
		name, title, detail = "temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints", "There is too much to do."
	}
	seconds, unit := x.RetryAfter()/time.Second, "seconds"
	if seconds == 1 {
		unit = "second"
	}
	// No part needs to be escaped: names of quotas are letters, digits and hyphens.
	body := fmt.Sprintf(`{"type":"https://iana.org/assignments/http-problem-types#%s","title":"%s","status":%d,"detail":"%s Send the request again in %d %s.","violated-policies":["%s"]}`+"\n",
		name, title, status, detail, seconds, unit, strings.Join(x.Quotas(), `","`))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client may have gone
}
