//go:build !linux

package engine

func holder(string) string { return "" }
