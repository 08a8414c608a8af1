// Package host makes a program of routes, handlers and a web: its command line, store, logs, signals, health, metrics
// and the order of stopping.
//
//	func main() {
//		host.Main(host.Program{Name: "shop", Routes: shop.Routes, Register: shop.Register, Web: shop.Site})
//	}
package host
