// Package flock locks files, where the system can. It doesn't know what they are for.
package flock
