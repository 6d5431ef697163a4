'use strict'
// kafkajs over TLS, with certificates and with SASL. usage: node secured.js settings.json
// The settings have the files of certificates, the places of both listeners, a user and a password.
// Prints one TAP line for each check; tests/compat/test_secured_clients.py reads them.

const assert = require('assert')
const fs = require('fs')
const path = require('path')

const home = process.env.KAFKAJS_HOME || path.join(__dirname, '../../../.cache/kafkajs')
const { Kafka, AclOperationTypes, AclPermissionTypes, AclResourceTypes, ResourcePatternTypes, logLevel } = require(
  path.join(home, 'node_modules', 'kafkajs')
)

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const settings = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))
const file = name => fs.readFileSync(settings[name], 'utf8')
const PATIENCE_MS = 60000
const checks = []
const check = (name, body) => checks.push({ name, body })

function client(broker, options) {
  return new Kafka({
    clientId: 'secured',
    brokers: [broker],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, retries: 5 },
    // 10 s before the end of a session by default: sessions here are shorter, and a broker takes
    // one authentication a second.
    reauthenticationThreshold: 1000,
    ...options,
  })
}

const scram = (mechanism, password = settings.password) =>
  client(settings.sasl, {
    ssl: { ca: [file('ca')] },
    sasl: { mechanism, username: settings.user, password },
  })

async function roundTrip(kafka, topic) {
  const values = Array.from({ length: 20 }, (_, i) => `v${i}`)
  const admin = kafka.admin()
  const producer = kafka.producer()
  const consumer = kafka.consumer({ groupId: topic, maxWaitTimeInMs: 100 })
  const got = []
  await admin.connect()
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 1 }] })
  await admin.disconnect()
  await producer.connect()
  await producer.send({ topic, messages: values.map(value => ({ value })) })
  await producer.disconnect()
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const all = new Promise(resolve => {
    consumer.run({
      eachMessage: async ({ message }) => {
        if (got.push(message.value.toString()) === values.length) resolve()
      },
    })
  })
  await all
  await consumer.disconnect()
  assert.deepStrictEqual(got, values)
}

for (const mechanism of ['scram-sha-256', 'scram-sha-512']) {
  check(`SASL_SSL with ${mechanism}`, () => roundTrip(scram(mechanism), `js-${mechanism}`))
}

check('a client certificate', async () => {
  const ssl = { ca: [file('ca')], cert: file('certificate'), key: file('key') }
  await roundTrip(client(settings.ssl, { ssl }), 'js-mtls')
})

check('no client certificate', async () => {
  const admin = client(settings.ssl, { ssl: { ca: [file('ca')] }, retry: { retries: 0 } }).admin()
  await assert.rejects(admin.connect())
})

check('a wrong password', async () => {
  await assert.rejects(scram('scram-sha-256', 'wrong').admin().connect(), /SASL|uthentication/)
})

check('ACLs are made, listed and deleted', async () => {
  const admin = scram('scram-sha-256').admin()
  await admin.connect()
  const acl = {
    resourceType: AclResourceTypes.TOPIC,
    resourceName: 'js-acls',
    resourcePatternType: ResourcePatternTypes.PREFIXED,
    principal: 'User:bob',
    host: '*',
    operation: AclOperationTypes.READ,
    permissionType: AclPermissionTypes.ALLOW,
  }
  await admin.createAcls({ acl: [acl] })
  const { resources } = await admin.describeAcls({ ...acl, host: undefined })
  assert.deepStrictEqual(
    resources.map(r => [r.resourceName, r.acls.map(a => [a.principal, a.operation])]),
    [['js-acls', [['User:bob', AclOperationTypes.READ]]]]
  )
  const { filterResponses } = await admin.deleteAcls({ filters: [acl] })
  assert.deepStrictEqual(
    filterResponses.map(f => f.matchingAcls.map(a => a.resourceName)),
    [['js-acls']]
  )
  await admin.disconnect()
})

async function main() {
  for (const { name, body } of checks) {
    let timer
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('timed out')), PATIENCE_MS)
    })
    try {
      await Promise.race([body(), late])
      console.log(`ok ${name}`)
    } catch (error) {
      console.log(`not ok ${name}`)
      console.log(`${error.stack ?? error}`.split('\n').map(line => `# ${line}`).join('\n'))
    } finally {
      clearTimeout(timer)
    }
  }
  process.exit(0)
}

main()
