-- lua_get.lua URL TIMEOUT: prints the answer's body by LuaSocket, which waits in select and asks by a second connect.
local http = require("socket.http")

http.TIMEOUT = tonumber(arg[2])
local body, status = http.request(arg[1])
if not body then
    io.stderr:write(status, "\n")
    os.exit(1)
end
io.write(body)
