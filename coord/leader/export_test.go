package leader

// WatchEvery is Watch with another time between two reads.
var WatchEvery = watch
