// The sample on Azure Container Apps: a web that scales by HTTP requests, and workers that scale from none by the
// messages that wait in their queues. docs/azure.md says how to deploy it and gives the reasons for the numbers.

@description('Name of the storage account to make; see storage.bicep.')
param account string

@description('Stands before all names of queues, containers and tables.')
param prefix string = 'bistro'

@description('Name of a container registry of this resource group.')
param registry string

@description('The image in it, such as millrace:1.')
param image string

@description('URL of the SMTP server, such as smtps://USER:PASSWORD@HOST:465. It becomes a secret of the worker.')
@secure()
param smtp string

@description('Public address of the site, for the links in mails. Empty: the one that Container Apps gives.')
param url string = ''

@description('How many seats the restaurant has.')
param seats int = 40

@description('Decides which day it is.')
param timeZone string = 'Etc/UTC'

@description('Where KEDA finds GET /scale, such as https://scale.example.com. Empty: workers scale by messages that wait.')
param scale string = ''

param location string = resourceGroup().location

var names = loadJsonContent('names.json')

// The identities that storage.bicep makes.
var webIdentity = resourceId('Microsoft.ManagedIdentity/userAssignedIdentities', '${account}-web')
var workerIdentity = resourceId('Microsoft.ManagedIdentity/userAssignedIdentities', '${account}-worker')

// The settings that both programs share.
var settings = [
  { name: 'MILLRACE_STORE', value: 'azure://${account}?prefix=${prefix}' }
  { name: 'RESERVATIONS_SEATS', value: string(seats) }
  { name: 'RESERVATIONS_PROXIES', value: '1' } // the ingress tells the client's address
  { name: 'TZ', value: timeZone }
  { name: 'AZURE_TOKEN_CREDENTIALS', value: 'ManagedIdentityCredential' } // no other kind is tried
  { name: 'GOMEMLIMIT', value: '400MiB' } // collects garbage before the limit of 0.5 GiB ends the process
]

// By the messages that wait. A custom rule, because azureQueue can't choose the strategy. visibleonly leaves delayed
// messages out, so that retries and scheduled messages keep no worker running.
var byMessages = [for q in names.queues: {
  name: q.name
  custom: {
    type: 'azure-queue'
    identity: workerIdentity
    metadata: {
      accountName: account
      queueName: '${prefix}-${q.name}'
      queueLengthStrategy: 'visibleonly'
      queueLength: '200'
      activationQueueLength: '0'
    }
  }
}]

// By the workers that have something to do: none while the queue is paused by hand, one while the service behind it is
// away. KEDA runs outside of the environment, and reaches no app without an external ingress. /scale is for operators
// alone, on the port of -admin. So put a proxy of yours before it, which lets nobody else in.
var byUse = [for q in names.queues: {
  name: q.name
  custom: {
    type: 'metrics-api'
    metadata: {
      url: '${scale}/scale?queue=${q.name}'
      valueLocation: 'value'
      targetValue: '1'
      activationTargetValue: '0'
    }
  }
}]

module store 'storage.bicep' = {
  name: 'store'
  params: {
    account: account
    prefix: prefix
    location: location
  }
}

resource acr 'Microsoft.ContainerRegistry/registries@2023-07-01' existing = {
  name: registry
}

resource pulls 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for program in ['web', 'worker']: {
  scope: acr
  name: guid(acr.id, account, program)
  properties: {
    principalId: program == 'web' ? store.outputs.webPrincipalId : store.outputs.workerPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '7f951dda-4ed3-4680-a7ca-43fe172d538d') // AcrPull
  }
}]

resource logs 'Microsoft.OperationalInsights/workspaces@2023-09-01' = {
  name: '${account}-logs'
  location: location
  properties: {
    sku: { name: 'PerGB2018' }
    retentionInDays: 30
  }
}

resource environment 'Microsoft.App/managedEnvironments@2025-01-01' = {
  name: '${account}-apps'
  location: location
  properties: {
    appLogsConfiguration: {
      destination: 'log-analytics'
      logAnalyticsConfiguration: {
        customerId: logs.properties.customerId
        sharedKey: logs.listKeys().primarySharedKey
      }
    }
  }
}

resource web 'Microsoft.App/containerApps@2025-01-01' = {
  name: '${prefix}-web'
  location: location
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: { '${webIdentity}': {} }
  }
  properties: {
    environmentId: environment.id
    configuration: {
      activeRevisionsMode: 'Single'
      ingress: {
        external: true
        targetPort: 8080
        allowInsecure: false
      }
      registries: [{ server: acr.properties.loginServer, identity: webIdentity }]
    }
    template: {
      // Running requests get 10 seconds.
      terminationGracePeriodSeconds: 30
      containers: [
        {
          name: 'web'
          image: '${acr.properties.loginServer}/${image}'
          command: ['/usr/local/bin/web']
          args: ['-worker=false']
          env: concat(settings, [
            { name: 'AZURE_CLIENT_ID', value: store.outputs.webClientId }
          ])
          resources: { cpu: json('0.25'), memory: '0.5Gi' }
          probes: [
            { type: 'Liveness', httpGet: { path: '/healthz', port: 8080 }, periodSeconds: 10, timeoutSeconds: 3 }
            { type: 'Readiness', httpGet: { path: '/readyz', port: 8080 }, periodSeconds: 10, timeoutSeconds: 3 }
          ]
        }
      ]
      scale: {
        // One replica stays, so that no request waits for a start. An open page that waits for its decision counts as a
        // request.
        minReplicas: 1
        maxReplicas: 10
        rules: [
          { name: 'requests', http: { metadata: { concurrentRequests: '100' } } }
        ]
      }
    }
  }
  dependsOn: [pulls]
}

resource worker 'Microsoft.App/containerApps@2025-01-01' = {
  name: '${prefix}-worker'
  location: location
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: { '${workerIdentity}': {} }
  }
  properties: {
    environmentId: environment.id
    configuration: {
      activeRevisionsMode: 'Single'
      secrets: [{ name: 'smtp', value: smtp }]
      registries: [{ server: acr.properties.loginServer, identity: workerIdentity }]
    }
    template: {
      // DrainTimeout (20 s), 10 s to record the deliveries that are cut off, 10 s for the admin server, and a reserve.
      terminationGracePeriodSeconds: 60
      containers: [
        {
          name: 'worker'
          image: '${acr.properties.loginServer}/${image}'
          command: ['/usr/local/bin/worker']
          args: ['-admin=:9090']
          env: concat(settings, [
            { name: 'AZURE_CLIENT_ID', value: store.outputs.workerClientId }
            { name: 'RESERVATIONS_URL', value: empty(url) ? 'https://${web.properties.configuration.ingress.fqdn}' : url }
            { name: 'RESERVATIONS_SMTP', secretRef: 'smtp' }
          ])
          resources: { cpu: json('0.25'), memory: '0.5Gi' }
          probes: [
            { type: 'Liveness', httpGet: { path: '/healthz', port: 9090 }, periodSeconds: 10, timeoutSeconds: 3 }
            { type: 'Readiness', httpGet: { path: '/readyz', port: 9090 }, periodSeconds: 30, timeoutSeconds: 3 }
          ]
        }
      ]
      scale: {
        minReplicas: 0
        maxReplicas: 10
        pollingInterval: 30
        // Longer than any handler runs, because messages that a worker holds are not counted (docs/azure.md,
        // "Scaling").
        cooldownPeriod: 300
        // There is one rule for each queue; the greatest demand counts.
        rules: empty(scale) ? byMessages : byUse
      }
    }
  }
  dependsOn: [pulls]
}

output address string = 'https://${web.properties.configuration.ingress.fqdn}'
