// The application for Node: node app.js FOLDER SEEN PLAIN TLS SHORT MTLS
'use strict'
const fs = require('fs')
const crypto = require('crypto')
const http = require('http')
const http2 = require('http2')
const https = require('https')
const zlib = require('zlib')

const [folder, seen, plain, tls, short, mtls] = process.argv.slice(2)
const pem = fs.readFileSync(`${folder}/cert.pem`)
const noted = fs.openSync(seen, 'a')
const text = fs.readFileSync(`${folder}/text.txt`)

function answer (request, response) {
  const url = new URL(request.url, 'http://localhost')
  const id = url.searchParams.get('id') || ''
  if (id) fs.writeSync(noted, id + '\n')
  const checksum = crypto.createHash('sha256')
  let length = 0
  request.on('data', piece => { checksum.update(piece); length += piece.length })
  request.on('end', () => setTimeout(reply, 1000 * Number(url.searchParams.get('wait') || 0)))
  function reply () {
    if (url.pathname === '/stamp') {
      response.end(id.repeat(Number(url.searchParams.get('n') || 1)))
    } else if (url.pathname === '/upload') {
      response.end(JSON.stringify({ length, sha256: checksum.digest('hex') }))
    } else if (url.pathname === '/204') {
      response.writeHead(204).end()
    } else if (url.pathname.startsWith('/redirect/')) {
      const hops = Number(url.pathname.slice(10))
      if (hops) response.writeHead(302, { location: `/redirect/${hops - 1}` }).end()
      else response.end('hello')
    } else if (url.pathname === '/trailers') {
      response.setHeader('Trailer', 'X-Checksum')
      response.write('hello')
      response.addTrailers({ 'X-Checksum': crypto.createHash('sha256').update('hello').digest('hex') })
      response.end()
    } else if (url.pathname === '/events') {
      response.setHeader('Content-Type', 'text/event-stream')
      for (const data of ['first', 'second', 'third']) response.write(`data: ${data}\n\n`)
      response.end()
    } else if (url.pathname === '/static/text.txt') {
      const wanted = request.headers['accept-encoding'] || ''
      const coding = /\bbr\b/.test(wanted) ? 'br' : /\bgzip\b/.test(wanted) ? 'gzip' : ''
      if (coding) response.setHeader('Content-Encoding', coding)
      const coded = coding === 'br' ? zlib.brotliCompressSync(text) : coding ? zlib.gzipSync(text) : text
      response.end(coded)
    } else {
      response.writeHead(404).end()
    }
  }
}

http.createServer(answer).listen(plain, '127.0.0.1')
http2.createSecureServer({ key: pem, cert: pem, allowHTTP1: true }, answer).listen(tls, '127.0.0.1')
const ending = http.createServer(answer)
ending.maxRequestsPerSocket = 2
ending.listen(short, '127.0.0.1')
const authority = fs.readFileSync(`${folder}/ca.pem`)
const demanding = { key: pem, cert: pem, ca: authority, requestCert: true, rejectUnauthorized: true }
https.createServer(demanding, answer).listen(mtls, '127.0.0.1')
