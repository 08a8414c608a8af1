// The storage account of one application, all names that the sample uses in it, and the roles. It is a module of
// containerapps.bicep. For Kubernetes deploy it by itself, with oidcIssuer.
//
// The template makes everything, so that the web needs no right to make anything. names.json has the web's access to
// each name. The worker owns the whole account: give each application an account of its own.

@description('Name of the storage account: lower-case letters and digits, unique in the world.')
@minLength(3)
@maxLength(24)
param account string

@description('Stands before all names: up to 12 lower-case letters and digits, as in azure://ACCOUNT?prefix=bistro.')
@maxLength(12)
param prefix string = 'bistro'

param location string = resourceGroup().location

@description('Standard_LRS where the region has no zones. The copies of geo-redundant kinds lag: a failover loses what was last acknowledged.')
@allowed(['Standard_ZRS', 'Standard_LRS'])
param sku string = 'Standard_ZRS'

@description('Kubernetes only: the OIDC issuer of the cluster.')
param oidcIssuer string = ''

@description('Kubernetes only: the namespace of the service accounts web and worker.')
param namespace string = 'millrace'

@description('Kubernetes only: namespace and name of the service account that KEDA runs as. The add-on of AKS has it in kube-system.')
param kedaServiceAccount string = 'keda:keda-operator'

var names = loadJsonContent('names.json')

var roles = {
  queueSender: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'c6a89b2d-59bc-44d0-9896-0f6e12d7b80a') // Storage Queue Data Message Sender
  queueReader: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '19e7f393-937e-4f77-808e-94535e297925') // Storage Queue Data Reader
  queueContributor: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '974c5e8b-45b9-4653-ba55-5f855dd0fb88') // Storage Queue Data Contributor
  blobReader: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1') // Storage Blob Data Reader
  blobDelegator: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'db58b8e5-c6ad-4a2a-8342-4190687cbf4a') // Storage Blob Delegator
  blobContributor: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'ba92f5b4-2d11-453d-a403-e96b0029c9fe') // Storage Blob Data Contributor
  tableReader: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '76199698-9eea-4c19-bc75-cec21354c6b6') // Storage Table Data Reader
  tableContributor: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3') // Storage Table Data Contributor
}

resource storage 'Microsoft.Storage/storageAccounts@2023-05-01' = {
  name: account
  location: location
  kind: 'StorageV2'
  sku: { name: sku }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowSharedKeyAccess: false // access needs a role
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
  }
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2023-05-01' = {
  parent: storage
  name: 'default'
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices/queues@2023-05-01' = [for q in names.queues: {
  parent: queueService
  name: '${prefix}-${q.name}'
}]

// Versions and soft deletion are off: documents are overwritten all the time, and each old one would be kept and
// billed.
resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2023-05-01' = {
  parent: storage
  name: 'default'
}

// A browser sends menu wishes straight to file-inbox. Once, and whenever the site gets another address, an operator allows
// that: millrace files cors --origin https://…
resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01' = [for c in names.containers: {
  parent: blobService
  name: '${prefix}-${c.name}'
}]

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2023-05-01' = {
  parent: storage
  name: 'default'
}

// A table's name can't have hyphens; the driver encodes them (storage/azure/names.go).
resource tables 'Microsoft.Storage/storageAccounts/tableServices/tables@2023-05-01' = [for t in names.tables: {
  parent: tableService
  name: replace(replace('${prefix}-${t.name}', 'z', 'zz'), '-', 'zx')
}]

resource web 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: '${account}-web'
  location: location
}

resource worker 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: '${account}-worker'
  location: location
}

resource webSends 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (q, i) in names.queues: if (!empty(q.web)) {
  scope: queues[i]
  name: guid(queues[i].id, web.id, q.web)
  properties: {
    principalId: web.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: roles.queueSender
  }
}]

resource webBlobs 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (c, i) in names.containers: if (!empty(c.web)) {
  scope: containers[i]
  name: guid(containers[i].id, web.id, c.web)
  properties: {
    principalId: web.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: c.web == 'write' ? roles.blobContributor : roles.blobReader
  }
}]

// A key for a file is signed with a key that the account gives. That key allows no more than the web's other roles. The
// worker's role on blobs includes this one.
resource webSigns 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: storage
  name: guid(storage.id, web.id, roles.blobDelegator)
  properties: {
    principalId: web.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: roles.blobDelegator
  }
}

resource webRows 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for (t, i) in names.tables: if (!empty(t.web)) {
  scope: tables[i]
  name: guid(tables[i].id, web.id, t.web)
  properties: {
    principalId: web.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: t.web == 'write' ? roles.tableContributor : roles.tableReader
  }
}]

// Message Processor isn't enough: it may receive and delete messages, but neither renew nor rewrite them.
resource workerRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for role in [roles.queueContributor, roles.blobContributor, roles.tableContributor]: {
  scope: storage
  name: guid(storage.id, worker.id, role)
  properties: {
    principalId: worker.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: role
  }
}]

// The rest is for Kubernetes only. KEDA counts messages with an identity of its own. The service accounts of the
// cluster stand for the identities, so that the cluster keeps no secret.

resource scaler 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = if (!empty(oidcIssuer)) {
  name: '${account}-scaler'
  location: location
}

resource scalerCounts 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(oidcIssuer)) {
  scope: storage
  name: guid(storage.id, scaler.id, roles.queueReader)
  properties: {
    principalId: scaler!.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: roles.queueReader
  }
}

resource webIsPod 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2023-01-31' = if (!empty(oidcIssuer)) {
  parent: web
  name: 'kubernetes'
  properties: {
    issuer: oidcIssuer
    subject: 'system:serviceaccount:${namespace}:web'
    audiences: ['api://AzureADTokenExchange']
  }
}

resource workerIsPod 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2023-01-31' = if (!empty(oidcIssuer)) {
  parent: worker
  name: 'kubernetes'
  properties: {
    issuer: oidcIssuer
    subject: 'system:serviceaccount:${namespace}:worker'
    audiences: ['api://AzureADTokenExchange']
  }
}

resource scalerIsKeda 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2023-01-31' = if (!empty(oidcIssuer)) {
  parent: scaler
  name: 'keda'
  properties: {
    issuer: oidcIssuer
    subject: 'system:serviceaccount:${kedaServiceAccount}'
    audiences: ['api://AzureADTokenExchange']
  }
}

output webClientId string = web.properties.clientId
output webPrincipalId string = web.properties.principalId
output workerClientId string = worker.properties.clientId
output workerPrincipalId string = worker.properties.principalId
output scalerClientId string = empty(oidcIssuer) ? '' : scaler!.properties.clientId
