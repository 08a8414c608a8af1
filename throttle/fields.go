package throttle

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"
)

// setFields adds the fields, so that they join those of another rate limiter. A quota that is violated has what is left
// of it, and the time until the request fits. One that degrades the request has nothing left. For any other one the
// time is given only where nothing is left: from units and a time together a client may work out a rate that the quota
// doesn't have.
func (c *claim) setFields(h http.Header, secret []byte, violated uint8, wait time.Duration) {
	if len(c.plan.rules) == 0 {
		return
	}
	key := ";pk=:" + partition(secret, c.who) + ":"
	var policy, limit []byte
	for i := range c.plan.rules {
		r := &c.plan.rules[i]
		if i > 0 {
			policy, limit = append(policy, ", "...), append(limit, ", "...)
		}
		policy = append(append(policy, r.policy...), key...)
		units, seconds := r.left(c.after[i], c.at)
		if c.less>>i&1 != 0 {
			units = 0
		}
		if (violated|c.less)>>i&1 != 0 && r.Unit != Concurrent {
			_, _, ns := r.take(c.after[i], c.at, r.cost(c.bytes))
			seconds = inSeconds(ns)
		}
		limit = append(append(limit, '"'), r.Name...)
		limit = strconv.AppendInt(append(limit, `";r=`...), units, 10)
		if seconds > 0 {
			limit = strconv.AppendInt(append(limit, ";t="...), seconds, 10)
		}
		limit = append(limit, key...)
	}
	h.Add("RateLimit-Policy", string(policy))
	h.Add("RateLimit", string(limit))
}

// partition returns what clients see of a tenant: the same for all its requests, and nothing that anybody can get the
// tenant from.
func partition(secret []byte, who party) string {
	mac := hmac.New(sha256.New, secret)
	kind := "tenant "
	if who.address {
		kind = "address "
	}
	_, _ = mac.Write([]byte(kind + who.name)) // never fails
	return base64.StdEncoding.EncodeToString(mac.Sum(nil)[:9])
}
