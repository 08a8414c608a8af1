// Loaded only when Azurite keeps blobs' properties in MySQL.
