// http_peer.js: a Node server that replies 200 to every request that its parser accepts, and 400 otherwise. The 400 may
// come before the replies to complete requests, so it states how many those are. Some versions of Node reject and some
// ignore what follows a request that closes the connection; here it counts as ignored. Prints its port and the version
// of its parser.
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
