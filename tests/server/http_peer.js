// http_peer.js: a server of Node that answers 200 to every request that its parser takes, and 400 to what it does not.
// That may come before the answers to requests that were whole: so it tells how many those are. What follows a request
// that closes the connection is refused by some versions of Node and passed over by others: here it counts as the latter.
// Prints its port, and the version of its parser.
'use strict'
const http = require('http')

const server = http.createServer({ keepAliveTimeout: 60000 }, (request, response) => {
  request.socket.requests = [...(request.socket.requests || []), request]
  request.resume()
  request.on('end', () => response.writeHead(200, { 'Content-Length': 2 }).end('ok'))
})
server.on('clientError', (error, socket) => {
  const served = (socket.requests || []).filter((request) => request.complete).length
  const refused = error.code === 'HPE_CLOSED_CONNECTION' ? 0 : 1
  if (socket.writable) {
    socket.end(`HTTP/1.1 400 Bad Request\r\nX-Served: ${served} ${refused}\r\nContent-Length: 0\r\n\r\n`)
  }
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port, process.versions.llhttp))
