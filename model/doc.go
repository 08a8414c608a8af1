// Package model holds the protocol of the promise as a Promela model, promise.pml, and the test that has spin check
// it: every state that its small worlds can reach, with whatever stops, comes late or fails in between. It is no part
// of the framework; docs/promise.md tells what the model says, what it leaves out, and what happens without each law.
package model
