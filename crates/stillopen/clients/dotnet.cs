using System.Net.Http;
using System.Net.Sockets;

var handler = new SocketsHttpHandler
{
    ConnectCallback = async (context, cancel) =>
    {
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        try
        {
            const SocketOptionLevel tcp = SocketOptionLevel.Tcp;
            socket.SetSocketOption(tcp, SocketOptionName.TcpKeepAliveInterval, @interval@);
            socket.SetSocketOption(tcp, SocketOptionName.TcpKeepAliveRetryCount, @count@);
            socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, true);
            socket.SetSocketOption(tcp, SocketOptionName.TcpKeepAliveTime, @idle@);
            await socket.ConnectAsync(context.DnsEndPoint, cancel);
            return new NetworkStream(socket, ownsSocket: true);
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    },
};
var client = new HttpClient(handler) { Timeout = TimeSpan.FromHours(1) };
