// Loaded only when Azurite keeps blobs' properties in SQL Server.
