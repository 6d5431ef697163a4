'use strict'
// What two ksqlDB clients for Node can do. usage: node checks.js http://host:port [name ...]
// Prints one TAP line for each check; tests/compat/test_ksqldb_clients.py reads them.

const assert = require('assert')
const crypto = require('crypto')
const path = require('path')

const home = process.env.KSQLDB_HOME || path.join(__dirname, '../../../.cache/ksqldb')
const KsqldbClient = require(path.join(home, 'node_modules', 'ksqldb-client'))
const ksqldbJs = require(path.join(home, 'node_modules', 'ksqldb-js'))

const url = new URL(process.argv[2])
const PATIENCE_MS = 240000
const EARLIEST = { streamsProperties: { 'ksql.streams.auto.offset.reset': 'earliest' } }
const checks = []
const check = (name, body) => checks.push({ name, body })
const unique = prefix => `${prefix}_${crypto.randomBytes(4).toString('hex')}`.toUpperCase()

async function until(condition, what) {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    const found = await condition()
    if (found) return found
    if (Date.now() > deadline) throw new Error(`never: ${typeof what === 'function' ? what() : what}`)
    await new Promise(resolve => setTimeout(resolve, 200))
  }
}

async function withClient(body) {
  const client = new KsqldbClient({ host: `http://${url.hostname}`, port: url.port })
  await client.connect()
  try {
    return await body(client)
  } finally {
    await client.disconnect()
  }
}

function good(response) {
  assert.ifError(response.error)
  assert.strictEqual(response.status, 200)
  return response
}

const createStream = name =>
  `CREATE STREAM ${name} (id STRING KEY, v INT) WITH (kafka_topic='${name}', partitions=1, value_format='json');`

check('ksqldb-client lists and describes', () =>
  withClient(async client => {
    const name = unique('listed')
    const made = good(await client.executeStatement(createStream(name)))
    assert.strictEqual(made.data.rows[0].commandStatus.status, 'SUCCESS')
    const streams = await client.listStreams()
    const listed = (streams.streams || streams).find(each => each.name === name)
    assert.strictEqual(listed.valueFormat, 'JSON')
    const topics = await client.listTopics()
    assert((topics.topics || topics).some(each => each.name === name))
    await client.listTables()
    await client.listQueries()
    const described = await client.describeSource(name)
    assert.strictEqual((described.sourceDescription || described).fields.length, 2)
  }))

check('ksqldb-client gets the error message', () =>
  withClient(async client => {
    const response = await client.executeStatement('CREATE STREAM nothing;')
    assert(response.error || response.status === 400, JSON.stringify(response))
  }))

check('ksqldb-client inserts and pulls', () =>
  withClient(async client => {
    const name = unique('pulled')
    good(await client.executeStatement(createStream(name)))
    const table = `${name}_SUMS`
    good(
      await client.executeStatement(
        `CREATE TABLE ${table} AS SELECT id, SUM(v) AS total FROM ${name} GROUP BY id EMIT CHANGES;`,
        EARLIEST,
      ),
    )
    for (const v of [1, 2]) {
      const inserted = good(await client.insertInto(name, { ID: 'a', V: v }))
      assert.strictEqual(inserted.data.rows[0].status, 'ok')
    }
    let seen = null
    await until(async () => {
      const { data } = good(await client.query(`SELECT total FROM ${table} WHERE id = 'a';`))
      assert.deepStrictEqual(data.metadata.columnNames, ['TOTAL'])
      seen = data.rows
      return seen.length === 1 && seen[0].TOTAL === 3
    }, () => `the sum of both rows, but ${JSON.stringify(seen)}`)
  }))

check('ksqldb-client follows a push query and ends it', () =>
  withClient(async client => {
    const name = unique('pushed')
    good(await client.executeStatement(createStream(name)))
    good(await client.insertInto(name, { ID: 'a', V: 1 })) // of INSERT VALUES, which gives nothing, it makes an error
    const rows = []
    let queryId = null
    const ended = client.streamQuery(
      `SELECT id, v FROM ${name} EMIT CHANGES;`,
      data => {
        if (data.metadata && data.metadata.queryId) queryId = data.metadata.queryId
        rows.push(...(data.rows || []))
      },
      EARLIEST,
    )
    await until(() => rows.length >= 1, 'the row')
    assert.deepStrictEqual(rows[0], { ID: 'a', V: 1 })
    assert(queryId, 'the id of the query')
    await client.terminatePushQuery(queryId)
    good(await ended)
  }))

check('ksqldb-js creates, pushes and terminates', async () => {
  const client = new ksqldbJs({ ksqldbURL: url.origin })
  const name = unique('js')
  await client.createStream(name, ['id VARCHAR', 'v INTEGER'], name, 'json', 1)
  const rows = []
  const queryId = await client.push(`SELECT * FROM ${name} EMIT CHANGES;`, chunk => {
    const found = JSON.parse(chunk)
    if (Array.isArray(found)) rows.push(found)
  })
  await client.insertStream(name, [{ ID: 'a', V: 7 }]) // one: it takes each chunk for a row
  await until(() => rows.length > 0, 'the row')
  assert.deepStrictEqual(rows[0], ['a', 7])
  const ended = await client.terminate(queryId)
  assert.strictEqual(ended.wasTerminated, true)
})

check('ksqldb-js pulls, and reads errors', async () => {
  const client = new ksqldbJs({ ksqldbURL: url.origin })
  const name = unique('jstable')
  await client.ksql(
    `CREATE TABLE ${name} (id VARCHAR PRIMARY KEY, v INTEGER) WITH (kafka_topic='${name}', partitions=1, value_format='json');`,
  )
  await client.ksql(`CREATE TABLE ${name}_T AS SELECT * FROM ${name} EMIT CHANGES;`)
  await client.insertStream(name, [{ ID: 'a', V: 7 }])
  await until(async () => {
    const found = await client.pull(`SELECT * FROM ${name}_T WHERE id = 'a';`)
    return found.length === 2 && found[1][1] === 7
  }, 'the row')
  await assert.rejects(client.pull('SELECT * FROM nothing;'), /NOTHING does not exist/)
})

async function main() {
  const wanted = process.argv.slice(3)
  for (const { name, body } of checks) {
    if (wanted.length && !wanted.includes(name)) continue
    const began = Date.now()
    try {
      await body()
      console.log(`ok ${name} # ${Date.now() - began} ms`)
    } catch (error) {
      console.log(`not ok ${name}`)
      for (const line of String((error && error.stack) || JSON.stringify(error)).split('\n')) console.log(`# ${line}`)
    }
  }
  process.exit(0)
}

main()
