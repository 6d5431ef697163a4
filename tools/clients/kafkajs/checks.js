'use strict'
// What kafkajs can do on one broker. usage: node checks.js host:port [name ...]
// Prints one TAP line for each check; tests/compat/test_kafkajs.py reads them.

const assert = require('assert')
const crypto = require('crypto')
const path = require('path')

const home = process.env.KAFKAJS_HOME || path.join(__dirname, '../../../.cache/kafkajs')
const kafkajs = require(path.join(home, 'node_modules', 'kafkajs'))
const { Kafka, CompressionTypes, ConfigResourceTypes, Partitioners, PartitionAssigners, logLevel } = kafkajs

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
const bootstrap = process.argv[2]
const kafka = new Kafka({
  clientId: 'checks',
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, retries: 8 },
})
const PATIENCE_MS = 60000
const checks = []
const check = (name, body) => checks.push({ name, body })
const unique = prefix => `${prefix}-${crypto.randomBytes(5).toString('hex')}`

async function until(condition, what) {
  const deadline = Date.now() + PATIENCE_MS
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`never: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

async function withAdmin(body) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await body(admin)
  } finally {
    await admin.disconnect()
  }
}

async function makeTopic(partitions = 1, configEntries = []) {
  const topic = unique('js')
  await withAdmin(admin =>
    admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }],
    })
  )
  return topic
}

async function send(topic, messages, options = {}, producerOptions = {}) {
  const producer = kafka.producer(producerOptions)
  await producer.connect()
  try {
    return await producer.send({ topic, messages, timeout: PATIENCE_MS, ...options })
  } finally {
    await producer.disconnect()
  }
}

// Reads `count` messages as a member of a new group (or of options.groupId).
async function read(topic, count, options = {}) {
  const consumer = kafka.consumer({ groupId: unique('js-group'), maxWaitTimeInMs: 200, ...options })
  const got = []
  await consumer.connect()
  try {
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        got.push({ partition, ...message })
      },
    })
    await until(() => got.length >= count, `${count} messages, there are ${got.length}`)
  } finally {
    await consumer.disconnect()
  }
  return got
}

for (const acks of [0, 1, -1]) {
  check(`produce with acks ${acks} and consume`, async () => {
    const topic = await makeTopic()
    const messages = Array.from({ length: 50 }, (_, i) => ({ key: `k${i}`, value: `v${i}` }))
    const sent = await send(topic, messages, { acks })
    if (acks !== 0) assert.deepStrictEqual(sent.map(s => [s.errorCode, s.baseOffset]), [[0, '0']])
    const got = await read(topic, 50)
    assert.deepStrictEqual(
      got.map(m => [m.key.toString(), m.value.toString(), m.offset]),
      messages.map((m, i) => [m.key, m.value, String(i)])
    )
  })
}

check('gzip', async () => {
  const topic = await makeTopic()
  const messages = Array.from({ length: 200 }, (_, i) => ({ value: `value ${i} `.repeat(10) }))
  await send(topic, messages, { compression: CompressionTypes.GZIP })
  const got = await read(topic, 200)
  assert.deepStrictEqual(got.map(m => m.value.toString()), messages.map(m => m.value))
})

check('headers, null keys and tombstones', async () => {
  const topic = await makeTopic()
  await send(topic, [
    { key: 'k', value: null },
    { key: null, value: 'v', headers: { one: '1', many: ['a', 'b'] } },
  ])
  const [tombstone, plain] = await read(topic, 2)
  assert.strictEqual(tombstone.value, null)
  assert.strictEqual(plain.key, null)
  assert.strictEqual(plain.headers.one.toString(), '1')
  assert.deepStrictEqual(plain.headers.many.map(String), ['a', 'b'])
})

check('timestamps and explicit partitions', async () => {
  const topic = await makeTopic(3)
  await send(topic, [{ value: 'v', partition: 2, timestamp: '1700000000000' }])
  const [message] = await read(topic, 1)
  assert.strictEqual(message.partition, 2)
  assert.strictEqual(message.timestamp, '1700000000000')
})

check('partitioners put equal keys together', async () => {
  for (const createPartitioner of [Partitioners.DefaultPartitioner, Partitioners.LegacyPartitioner]) {
    const topic = await makeTopic(5)
    const messages = Array.from({ length: 60 }, (_, i) => ({ key: `key${i % 12}`, value: 'v' }))
    await send(topic, messages, {}, { createPartitioner })
    const places = new Map()
    for (const m of await read(topic, 60)) {
      const key = m.key.toString()
      assert.strictEqual(places.get(key) ?? m.partition, m.partition)
      places.set(key, m.partition)
    }
    assert.ok(new Set(places.values()).size > 1)
  }
})

check('idempotent producer', async () => {
  const topic = await makeTopic()
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (let i = 0; i < 20; i++) await producer.send({ topic, messages: [{ value: String(i) }] })
  await producer.disconnect()
  const got = await read(topic, 20)
  assert.deepStrictEqual(got.map(m => Number(m.value)), [...Array(20).keys()])
})

check('sendBatch to several topics', async () => {
  const topics = [await makeTopic(), await makeTopic()]
  const producer = kafka.producer()
  await producer.connect()
  const topicMessages = topics.map(topic => ({ topic, messages: [{ value: topic }] }))
  const sent = await producer.sendBatch({ topicMessages })
  await producer.disconnect()
  assert.strictEqual(sent.length, 2)
  for (const topic of topics) assert.strictEqual((await read(topic, 1))[0].value.toString(), topic)
})

check('unknown topic is created on first use', async () => {
  const topic = unique('js-auto')
  await send(topic, [{ value: 'first' }])
  assert.strictEqual((await read(topic, 1))[0].value.toString(), 'first')
})

check('a message that is too large is an error', async () => {
  const topic = await makeTopic(1, [{ name: 'max.message.bytes', value: '1000' }])
  await assert.rejects(send(topic, [{ value: 'x'.repeat(5000) }]), { type: 'MESSAGE_TOO_LARGE' })
  await send(topic, [{ value: 'small' }])
})

check('an invalid topic name is an error', async () => {
  await assert.rejects(send('no spaces', [{ value: 'x' }]), error => {
    const type = error.type ?? error.cause?.type
    assert.strictEqual(type, 'INVALID_TOPIC_EXCEPTION', error.stack)
    return true
  })
})

check('three members share and hand over', async () => {
  const topic = await makeTopic(6)
  const groupId = unique('js-group')
  const members = []
  const owned = () => members.map(m => m.partitions).filter(p => p.length > 0)
  const spread = () => owned().length === members.length && owned().flat().length === 6 &&
    new Set(owned().flat()).size === 6
  for (let i = 0; i < 3; i++) {
    const consumer = kafka.consumer({ groupId, sessionTimeout: 10000, heartbeatInterval: 500, maxWaitTimeInMs: 200,
      rebalanceTimeout: 20000, partitionAssigners: [PartitionAssigners.roundRobin] })
    const member = { consumer, partitions: [], values: [] }
    consumer.on(consumer.events.GROUP_JOIN, e => {
      member.partitions = e.payload.memberAssignment[topic] ?? []
    })
    members.push(member)
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ eachMessage: async ({ message }) => member.values.push(Number(message.value)) })
    await until(spread, `${i + 1} members share`)
  }
  await send(topic, Array.from({ length: 60 }, (_, i) => ({ value: String(i), partition: i % 6 })))
  await until(() => members.flatMap(m => m.values).length >= 60, 'all is read')
  const values = members.flatMap(m => m.values).sort((a, b) => a - b)
  assert.deepStrictEqual(values, [...Array(60).keys()])
  await members.pop().consumer.disconnect()
  await until(spread, 'two members share')
  for (const m of members) await m.consumer.disconnect()
})

check('commit, resume where the last one stopped, and seek', async () => {
  const topic = await makeTopic()
  const groupId = unique('js-group')
  await send(topic, Array.from({ length: 20 }, (_, i) => ({ value: String(i) })))
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const seen = []
  await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => seen.push(message.offset) })
  await until(() => seen.length === 20, '20 messages')
  consumer.seek({ topic, partition: 0, offset: '18' })
  await until(() => seen.length === 22, 'two again')
  assert.deepStrictEqual(seen.slice(20), ['18', '19'])
  await consumer.commitOffsets([{ topic, partition: 0, offset: '15', metadata: 'mine' }])
  await consumer.disconnect()
  const again = await read(topic, 5, { groupId })
  assert.strictEqual(again[0].offset, '15')
})

check('pause and resume', async () => {
  const topic = await makeTopic()
  const consumer = kafka.consumer({ groupId: unique('js-group'), maxWaitTimeInMs: 200 })
  const seen = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => seen.push(message.value.toString()) })
  await send(topic, [{ value: 'one' }])
  await until(() => seen.length === 1, 'the first')
  consumer.pause([{ topic }])
  assert.strictEqual(consumer.paused().length, 1)
  await new Promise(resolve => setTimeout(resolve, 600))
  await send(topic, [{ value: 'two' }])
  await new Promise(resolve => setTimeout(resolve, 1000))
  assert.deepStrictEqual(seen, ['one'])
  consumer.resume([{ topic }])
  await until(() => seen.length === 2, 'the second')
  await consumer.disconnect()
})

check('eachBatch with a regular expression', async () => {
  const prefix = unique('js-regex')
  await send(`${prefix}-a`, [{ value: 'a' }])
  await send(`${prefix}-b`, [{ value: 'b' }])
  const consumer = kafka.consumer({ groupId: unique('js-group'), maxWaitTimeInMs: 200 })
  const seen = new Set()
  await consumer.connect()
  await consumer.subscribe({ topics: [new RegExp(`^${prefix}-.*`)], fromBeginning: true })
  await consumer.run({
    eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
      assert.ok(Number(batch.highWatermark) >= 1)
      for (const message of batch.messages) {
        seen.add(message.value.toString())
        resolveOffset(message.offset)
        await heartbeat()
      }
    },
  })
  await until(() => seen.size === 2, 'both topics')
  await consumer.disconnect()
})

check('a large message', async () => {
  const topic = await makeTopic(1, [{ name: 'max.message.bytes', value: '10000000' }])
  const value = crypto.randomBytes(3000000)
  await send(topic, [{ value }])
  const [message] = await read(topic, 1, { maxBytesPerPartition: 100000 })
  assert.ok(message.value.equals(value))
})

check('admin: create, describe, list and delete topics', async () => {
  await withAdmin(async admin => {
    const topic = unique('js-admin')
    const topics = [{ topic, numPartitions: 3, replicationFactor: 1 }]
    assert.strictEqual(await admin.createTopics({ topics, waitForLeaders: true }), true)
    assert.strictEqual(await admin.createTopics({ topics }), false)
    assert.ok((await admin.listTopics()).includes(topic))
    const metadata = await admin.fetchTopicMetadata({ topics: [topic] })
    assert.strictEqual(metadata.topics[0].partitions.length, 3)
    for (const p of metadata.topics[0].partitions) assert.deepStrictEqual(p.isr, p.replicas)
    await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
    await until(async () => {
      const now = await admin.fetchTopicMetadata({ topics: [topic] })
      return now.topics[0].partitions.length === 5
    }, 'five partitions')
    await admin.deleteTopics({ topics: [topic] })
    await until(async () => !(await admin.listTopics()).includes(topic), 'it is gone')
  })
})

check('admin: create refusals', async () => {
  await withAdmin(async admin => {
    const refused = async entry => {
      try {
        await admin.createTopics({ topics: [entry] })
      } catch (error) {
        return (error.errors ? error.errors[0] : error).type
      }
      return 'none'
    }
    assert.strictEqual(await refused({ topic: 'bad name' }), 'INVALID_TOPIC_EXCEPTION')
    const entry = { topic: unique('x'), configEntries: [{ name: 'no.such', value: '1' }] }
    assert.strictEqual(await refused(entry), 'INVALID_CONFIG')
    assert.strictEqual(
      await refused({ topic: unique('x'), replicationFactor: 9 }), 'INVALID_REPLICATION_FACTOR')
  })
})

check('admin: topic offsets, by timestamp too', async () => {
  const topic = await makeTopic()
  await send(topic, [10, 20, 30].map(i => ({ value: 'v', timestamp: String(1700000000000 + i) })))
  await withAdmin(async admin => {
    const [offsets] = await admin.fetchTopicOffsets(topic)
    assert.deepStrictEqual({ ...offsets }, { partition: 0, offset: '3', high: '3', low: '0' })
    const at = async t => (await admin.fetchTopicOffsetsByTimestamp(topic, t))[0].offset
    assert.strictEqual(await at(1700000000015), '1')
    assert.strictEqual(await at(1700000000000), '0')
    assert.strictEqual(await at(1700000000031), '3')
  })
})

check('admin: set, fetch and reset group offsets', async () => {
  const topic = await makeTopic()
  const groupId = unique('js-group')
  await send(topic, Array.from({ length: 10 }, () => ({ value: 'v' })))
  await withAdmin(async admin => {
    const offset = async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions[0].offset
    assert.strictEqual(await offset(), '-1')
    await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '4' }] })
    assert.strictEqual(await offset(), '4')
    await admin.resetOffsets({ groupId, topic, earliest: true })
    const all = await admin.fetchOffsets({ groupId })
    assert.deepStrictEqual(all.map(t => t.topic), [topic])
  })
})

check('admin: list, describe and delete groups', async () => {
  const topic = await makeTopic()
  const groupId = unique('js-group')
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic] })
  const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
  await consumer.run({ eachMessage: async () => {} })
  await joined
  await withAdmin(async admin => {
    const listed = await admin.listGroups()
    assert.ok(listed.groups.some(g => g.groupId === groupId && g.protocolType === 'consumer'))
    const { groups: [group] } = await admin.describeGroups([groupId])
    assert.strictEqual(group.state, 'Stable')
    assert.strictEqual(group.members.length, 1)
    assert.strictEqual(group.members[0].clientId, 'checks')
    await assert.rejects(admin.deleteGroups([groupId]))
    await consumer.disconnect()
    const [deleted] = await admin.deleteGroups([groupId])
    assert.strictEqual(deleted.errorCode ?? 0, 0)
  })
})

check('admin: describe and alter configs', async () => {
  const topic = await makeTopic()
  await withAdmin(async admin => {
    const describe = async () => {
      const result = await admin.describeConfigs({
        includeSynonyms: true,
        resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
      })
      return Object.fromEntries(result.resources[0].configEntries.map(e => [e.configName, e]))
    }
    const before = await describe()
    assert.strictEqual(before['retention.ms'].configValue, '604800000')
    assert.strictEqual(before['retention.ms'].isDefault, true)
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{
        type: ConfigResourceTypes.TOPIC, name: topic,
        configEntries: [{ name: 'retention.ms', value: '1234567' }],
      }],
    })
    await until(async () => (await describe())['retention.ms'].configValue === '1234567', 'altered')
  })
})

check('admin: delete records', async () => {
  const topic = await makeTopic()
  await send(topic, Array.from({ length: 10 }, () => ({ value: 'v' })))
  await withAdmin(async admin => {
    await admin.fetchTopicOffsets(topic) // kafkajs looks for the leader in metadata that it has loaded
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '6' }] })
    assert.strictEqual((await admin.fetchTopicOffsets(topic))[0].low, '6')
  })
})

check('admin: describe the cluster', async () => {
  await withAdmin(async admin => {
    const cluster = await admin.describeCluster()
    assert.strictEqual(cluster.brokers.length, 1)
    assert.strictEqual(`${cluster.brokers[0].host}:${cluster.brokers[0].port}`, bootstrap)
    assert.strictEqual(cluster.controller, cluster.brokers[0].nodeId)
    assert.ok(cluster.clusterId.length > 0)
  })
})

// kafkajs has idempotent and transactional producers of the first protocol (KIP-98).
async function inTransactions(transactionalId, body) {
  const producer = kafka.producer({ transactionalId, maxInFlightRequests: 1, idempotent: true })
  await producer.connect()
  try {
    await body(producer)
  } finally {
    await producer.disconnect()
  }
}

check('transactions: commit and abort', async () => {
  const topic = await makeTopic()
  await inTransactions(unique('js-txn'), async producer => {
    for (const value of ['a', 'dropped', 'b']) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: [{ value, partition: 0 }] })
      if (value === 'dropped') await transaction.abort()
      else await transaction.commit()
    }
  })
  const got = await read(topic, 2) // kafkajs reads committed records by default
  assert.deepStrictEqual(got.map(m => m.value.toString()), ['a', 'b'])
  const all = await read(topic, 3, { readUncommitted: true })
  assert.deepStrictEqual(all.map(m => m.value.toString()), ['a', 'dropped', 'b'])
})

check('transactions: offsets go with them', async () => {
  const topic = await makeTopic()
  const groupId = unique('js-group')
  await inTransactions(unique('js-txn'), async producer => {
    for (const [offset, commit] of [['3', true], ['7', false]]) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: [{ value: 'v', partition: 0 }] })
      await transaction.sendOffsets({
        consumerGroupId: groupId,
        topics: [{ topic, partitions: [{ partition: 0, offset }] }],
      })
      if (commit) await transaction.commit()
      else await transaction.abort()
    }
  })
  await withAdmin(async admin => {
    const [found] = await admin.fetchOffsets({ groupId, topics: [topic] })
    assert.strictEqual(found.partitions[0].offset, '3')
  })
})

check('transactions: a zombie is fenced', async () => {
  const topic = await makeTopic()
  const name = unique('js-txn')
  await inTransactions(name, async zombie => {
    const left = await zombie.transaction()
    await left.send({ topic, messages: [{ value: 'left behind' }] })
    await inTransactions(name, async successor => {
      const transaction = await successor.transaction()
      await transaction.send({ topic, messages: [{ value: 'new' }] })
      await transaction.commit()
    })
    await assert.rejects(left.commit())
  })
  const got = await read(topic, 1)
  assert.strictEqual(got[0].value.toString(), 'new')
})

async function main() {
  const wanted = process.argv.slice(3)
  for (const { name, body } of checks) {
    if (wanted.length > 0 && !wanted.includes(name)) continue
    let timer
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('timed out')), 2 * PATIENCE_MS)
    })
    const start = Date.now()
    try {
      await Promise.race([body(), late])
      console.log(`ok ${name} # ${Date.now() - start} ms`)
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
