// Package scale tells what the framework does with more workers, queues and commands than a test machine has.
//
// Channels, workers, handlers, values and views are the real ones. They run in virtual time (testing/synctest) on a model of
// an Azure Storage account: what the service documents as its limits, what the driver does with a refusal, and latencies
// with a tail. The model keeps everything in memory, and is good for measurements only; it passes the conformance suite all
// the same, lest it flatter.
//
// A run has processes, queues, keys and a load. It ends when every command is in its view, and then counts: commands a
// second, lag, requests, refusals, money. docs/scale.md says what came of it.
//
//	make scale        all runs, some twenty minutes: writes the tables and charts in docs/scale
//
// The package consists of tests.
package scale
