// Package lanes divides queues of any store into lanes.
package lanes
