package site

import (
	"errors"
	"net/url"
)

// Receipts returns a function that makes the address of a reservation's receipt, for people who reach the site at a
// base such as https://tables.example.org. The site's own pages don't need it: their links hold no host.
func Receipts(base string) (func(id string) string, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		err = errors.New("want an address like https://tables.example.org")
	case u.User != nil:
		err = errors.New("want no user name and no password: the address is public")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		err = errors.New("want nothing after the host and the port: the pages are at the root")
	}
	if err != nil {
		return nil, err
	}
	origin := u.Scheme + "://" + u.Host
	return func(id string) string { return origin + receiptPath(id) }, nil
}

// receiptPath is the path of a reservation's receipt.
func receiptPath(id string) string { return "/reservations/" + url.PathEscape(id) }
