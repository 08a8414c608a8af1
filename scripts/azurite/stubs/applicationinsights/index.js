// Loaded by Azurite whether or not it reports anything; nothing in it is called with --disableTelemetry.
