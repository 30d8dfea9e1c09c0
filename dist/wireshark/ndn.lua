-- Wireshark dissector for Named Data Networking: NDN packet format 0.3 and NDNLPv2.
-- Installed by `namewire capture --install-dissector`. Filters: ndn, ndn.type, ndn.name, and the fields below.
--
-- Carried by Ethernet (0x8624), UDP (6363 and 56363) and TCP (6363).

local ndn = Proto("ndn", "Named Data Networking")

local f = {
  type = ProtoField.string("ndn.type", "Packet"),
  name = ProtoField.string("ndn.name", "Name"),
  can_be_prefix = ProtoField.bool("ndn.can_be_prefix", "CanBePrefix"),
  must_be_fresh = ProtoField.bool("ndn.must_be_fresh", "MustBeFresh"),
  nonce = ProtoField.uint32("ndn.nonce", "Nonce", base.HEX),
  lifetime = ProtoField.uint64("ndn.lifetime", "InterestLifetime (ms)"),
  hop_limit = ProtoField.uint8("ndn.hop_limit", "HopLimit"),
  parameters_len = ProtoField.uint32("ndn.parameters_len", "Length of ApplicationParameters"),
  content_type = ProtoField.uint64("ndn.content_type", "ContentType"),
  freshness = ProtoField.uint64("ndn.freshness", "FreshnessPeriod (ms)"),
  final_block = ProtoField.string("ndn.final_block", "FinalBlockId"),
  content_len = ProtoField.uint32("ndn.content_len", "Length of Content"),
  signature_type = ProtoField.uint64("ndn.signature_type", "SignatureType", base.DEC, {
    [0] = "DigestSha256", [1] = "SignatureSha256WithRsa", [3] = "SignatureSha256WithEcdsa",
    [4] = "SignatureHmacWithSha256", [5] = "SignatureEd25519", [200] = "Null",
  }),
  key = ProtoField.string("ndn.key", "KeyLocator"),
  hint = ProtoField.string("ndn.forwarding_hint", "ForwardingHint"),
  sequence = ProtoField.uint64("ndn.lp.sequence", "Sequence"),
  fragment_index = ProtoField.uint64("ndn.lp.fragment_index", "FragIndex"),
  fragment_count = ProtoField.uint64("ndn.lp.fragment_count", "FragCount"),
  pit_token = ProtoField.bytes("ndn.lp.pit_token", "PitToken"),
  nack = ProtoField.uint64("ndn.lp.nack", "Nack reason", base.DEC, {
    [50] = "Congestion", [100] = "Duplicate", [150] = "NoRoute",
  }),
  incoming_face = ProtoField.uint64("ndn.lp.incoming_face", "IncomingFaceId"),
  next_hop_face = ProtoField.uint64("ndn.lp.next_hop_face", "NextHopFaceId"),
  congestion_mark = ProtoField.uint64("ndn.lp.congestion_mark", "CongestionMark"),
  ack = ProtoField.uint64("ndn.lp.ack", "Ack"),
  tx_sequence = ProtoField.uint64("ndn.lp.tx_sequence", "TxSequence"),
  element = ProtoField.bytes("ndn.element", "Element"),
}
local fields = {}
for _, field in pairs(f) do fields[#fields + 1] = field end
ndn.fields = fields

local malformed = ProtoExpert.new("ndn.malformed", "Malformed packet", expert.group.MALFORMED, expert.severity.ERROR)
ndn.experts = { malformed }

local LP_PACKET, FRAGMENT = 0x64, 0x50
local NACK_REASONS = { [50] = "Congestion", [100] = "Duplicate", [150] = "NoRoute" }
local COMPONENT_PREFIXES = { [50] = "seg", [52] = "off", [54] = "v", [56] = "t", [58] = "seq" }

-- A TLV number at `at`: its value and the position behind it; nil if it is not complete.
local function number_at(tvb, at, limit)
  if at >= limit then return nil end
  local first = tvb(at, 1):uint()
  local length = ({ [253] = 2, [254] = 4, [255] = 8 })[first]
  if not length then return first, at + 1 end
  if at + 1 + length > limit then return nil end
  local range = tvb(at + 1, length)
  if length == 8 then
    local value = range:uint64()
    if value > UInt64(0x7fffffff) then return nil end
    return value:tonumber(), at + 9
  end
  return range:uint(), at + 1 + length
end

-- The element at `at`; nil if it is not complete before `limit`.
local function element_at(tvb, at, limit)
  local kind, behind_type = number_at(tvb, at, limit)
  if not kind then return nil end
  local length, start = number_at(tvb, behind_type, limit)
  if not length or start + length > limit then return nil end
  return { type = kind, at = at, start = start, length = length, stop = start + length }
end

-- Iterates over the elements between two positions. The last one is `false` if bytes are left that are no element.
local function elements(tvb, start, stop)
  local at, broken = start, false
  return function()
    if broken or at >= stop then return nil end
    local element = element_at(tvb, at, stop)
    if not element then
      broken = true
      return false
    end
    at = element.stop
    return element
  end
end

local function value_of(tvb, element) return tvb(element.start, element.length) end

-- A NonNegativeInteger; nil for another length.
local function integer(tvb, element)
  local length = element.length
  if length ~= 1 and length ~= 2 and length ~= 4 and length ~= 8 then return nil end
  return value_of(tvb, element):uint64()
end

local function hex(tvb, element)
  return element.length == 0 and "" or value_of(tvb, element):bytes():tohex(true)
end

local function escaped(tvb, element)
  if element.length == 0 then return "..." end
  local raw = value_of(tvb, element):raw()
  local text = raw:gsub("[^%w%-%._~]", function(byte) return string.format("%%%02X", byte:byte()) end)
  if text:match("^%.+$") then return text .. "..." end
  return text
end

local function component(tvb, element)
  if element.type == 8 then return escaped(tvb, element) end
  if element.type == 1 then return "sha256digest=" .. hex(tvb, element) end
  if element.type == 2 then return "params-sha256=" .. hex(tvb, element) end
  local prefix, number = COMPONENT_PREFIXES[element.type], integer(tvb, element)
  if prefix and number then return prefix .. "=" .. tostring(number) end
  return element.type .. "=" .. escaped(tvb, element)
end

-- The URI of a Name.
local function uri(tvb, element)
  local parts = {}
  for part in elements(tvb, element.start, element.stop) do
    if not part then return nil end
    parts[#parts + 1] = component(tvb, part)
  end
  return "/" .. table.concat(parts, "/")
end

-- Adds a number to the tree, or a note that it is none.
local function add_integer(tree, field, tvb, element)
  local value = integer(tvb, element)
  if value then
    tree:add(field, tvb(element.at, element.stop - element.at), value)
  else
    tree:add_proto_expert_info(malformed, "a number of " .. element.length .. " bytes")
  end
end

local function add_name(tree, field, tvb, element)
  local name = uri(tvb, element)
  if name then
    tree:add(field, tvb(element.at, element.stop - element.at), name)
  else
    tree:add_proto_expert_info(malformed, "a name that is not complete")
  end
  return name
end

local function add_other(tree, tvb, element)
  local range = tvb(element.at, element.stop - element.at)
  tree:add(f.element, range):prepend_text(string.format("Type 0x%X: ", element.type))
end

local function signature_info(tree, tvb, element)
  for inner in elements(tvb, element.start, element.stop) do
    if not inner then return end
    if inner.type == 0x1b then
      add_integer(tree, f.signature_type, tvb, inner)
    elseif inner.type == 0x1c then
      for key in elements(tvb, inner.start, inner.stop) do
        if key and key.type == 7 then add_name(tree, f.key, tvb, key) end
        if key and key.type == 0x1d then
          tree:add(f.key, value_of(tvb, key), "digest " .. hex(tvb, key))
        end
      end
    end
  end
end

local function meta_info(tree, tvb, element)
  for inner in elements(tvb, element.start, element.stop) do
    if not inner then return end
    if inner.type == 0x18 then
      add_integer(tree, f.content_type, tvb, inner)
    elseif inner.type == 0x19 then
      add_integer(tree, f.freshness, tvb, inner)
    elseif inner.type == 0x1a then
      local last = element_at(tvb, inner.start, inner.stop)
      if last then tree:add(f.final_block, value_of(tvb, inner), component(tvb, last)) end
    else
      add_other(tree, tvb, inner)
    end
  end
end

-- What each element of an Interest and of a Data adds to the tree.
local interest_elements = {
  [0x21] = function(tree, tvb, element) tree:add(f.can_be_prefix, tvb(element.at, element.stop - element.at), true) end,
  [0x12] = function(tree, tvb, element) tree:add(f.must_be_fresh, tvb(element.at, element.stop - element.at), true) end,
  [0x1e] = function(tree, tvb, element)
    for hint in elements(tvb, element.start, element.stop) do
      if hint and hint.type == 7 then add_name(tree, f.hint, tvb, hint) end
    end
  end,
  [0x0a] = function(tree, tvb, element)
    if element.length == 4 then tree:add(f.nonce, value_of(tvb, element)) end
  end,
  [0x0c] = function(tree, tvb, element) add_integer(tree, f.lifetime, tvb, element) end,
  [0x22] = function(tree, tvb, element)
    if element.length == 1 then tree:add(f.hop_limit, value_of(tvb, element)) end
  end,
  [0x24] = function(tree, tvb, element)
    tree:add(f.parameters_len, tvb(element.at, element.stop - element.at), element.length)
  end,
  [0x2c] = signature_info,
}
local data_elements = {
  [0x14] = meta_info,
  [0x15] = function(tree, tvb, element)
    tree:add(f.content_len, tvb(element.at, element.stop - element.at), element.length)
  end,
  [0x16] = signature_info,
}
local PACKETS = { [5] = { "Interest", interest_elements }, [6] = { "Data", data_elements } }

-- A network-layer packet; returns its type and name.
local function network_packet(tvb, element, tree)
  local known = PACKETS[element.type]
  if not known then return nil end
  local kind, contents = known[1], known[2]
  local below = tree:add(f.type, tvb(element.at, element.stop - element.at), kind)
  local name
  for inner in elements(tvb, element.start, element.stop) do
    if not inner then
      below:add_proto_expert_info(malformed, "bytes that are no element")
      break
    end
    if inner.type == 7 and not name then
      name = add_name(below, f.name, tvb, inner)
    elseif contents[inner.type] then
      contents[inner.type](below, tvb, inner)
    else
      add_other(below, tvb, inner)
    end
  end
  return kind, name or "(no name)"
end

local lp_elements = {
  [0x51] = f.sequence, [0x52] = f.fragment_index, [0x53] = f.fragment_count, [0x032c] = f.incoming_face,
  [0x0330] = f.next_hop_face, [0x0340] = f.congestion_mark, [0x0344] = f.ack, [0x0348] = f.tx_sequence,
}

-- An LpPacket; returns the text of the Info column.
local function lp_packet(tvb, element, tree)
  local below = tree:add(f.type, tvb(element.at, element.stop - element.at), "LpPacket")
  local fragment, nack, index, count, acks = nil, nil, 0, 1, 0
  for inner in elements(tvb, element.start, element.stop) do
    if not inner then
      below:add_proto_expert_info(malformed, "bytes that are no element")
      break
    end
    local field = lp_elements[inner.type]
    if inner.type == FRAGMENT then
      fragment = inner
    elseif field then
      add_integer(below, field, tvb, inner)
      local value = integer(tvb, inner)
      local number = value and value:tonumber()
      if inner.type == 0x52 then index = number or 0 end
      if inner.type == 0x53 then count = number or 1 end
      if inner.type == 0x0344 then acks = acks + 1 end
    elseif inner.type == 0x62 then
      below:add(f.pit_token, value_of(tvb, inner))
    elseif inner.type == 0x0320 then
      nack = "Nack"
      for reason in elements(tvb, inner.start, inner.stop) do
        local value = reason and reason.type == 0x0321 and integer(tvb, reason)
        if value then
          add_integer(below, f.nack, tvb, reason)
          nack = "Nack " .. (NACK_REASONS[value:tonumber()] or tostring(value))
        end
      end
    else
      add_other(below, tvb, inner)
    end
  end
  if not fragment then
    if acks == 0 then return "Idle" end
    return acks == 1 and "1 Ack" or acks .. " Acks"
  end
  if count > 1 then return string.format("Fragment %d of %d", index + 1, count) end
  local packet = element_at(tvb, fragment.start, fragment.stop)
  local kind, name
  if packet then kind, name = network_packet(tvb, packet, below) end
  if not kind then
    below:add_proto_expert_info(malformed, "a fragment that is no packet")
    return "Malformed"
  end
  return (nack or kind) .. " " .. name
end

-- One packet at `at`; returns the position behind it, or nil if it is none.
local function dissect_packet(tvb, at, limit, pinfo, tree)
  local element = element_at(tvb, at, limit)
  if not element or not (element.type == LP_PACKET or PACKETS[element.type]) then return nil end
  local below = tree:add(ndn, tvb(at, element.stop - at))
  local info
  if element.type == LP_PACKET then
    info = lp_packet(tvb, element, below)
  else
    local kind, name = network_packet(tvb, element, below)
    info = kind .. " " .. name
  end
  below:append_text(": " .. info)
  return element.stop, info
end

local function show(pinfo, infos)
  pinfo.cols.protocol = "NDN"
  pinfo.cols.info = table.concat(infos, "; ")
end

-- A datagram or frame has one packet; Ethernet pads short frames behind it.
function ndn.dissector(tvb, pinfo, tree)
  local stop, info = dissect_packet(tvb, 0, tvb:len(), pinfo, tree)
  if not stop then
    local element = element_at(tvb, 0, tvb:len())
    if tvb:len() < tvb:reported_len() or element then return 0 end
    pinfo.cols.protocol = "NDN"
    pinfo.cols.info = "Malformed"
    tree:add(ndn, tvb()):add_proto_expert_info(malformed, "no TLV element")
    return tvb:len()
  end
  show(pinfo, { info })
  return tvb:len()
end

-- A stream is a sequence of packets, which may begin and end in any segment.
local stream = Proto("ndn_stream", "Named Data Networking over a stream")
local PACKET_LEN_MAX = 8800 + 512

function stream.dissector(tvb, pinfo, tree)
  local at, limit, infos = 0, tvb:len(), {}
  while at < limit do
    local stop, info = dissect_packet(tvb, at, limit, pinfo, tree)
    if stop then
      at = stop
      infos[#infos + 1] = info
    else
      local first = tvb(at, 1):uint()
      local is_start = first == LP_PACKET or PACKETS[first]
      if not is_start or limit - at > PACKET_LEN_MAX then break end
      pinfo.desegment_offset = at
      pinfo.desegment_len = DESEGMENT_ONE_MORE_SEGMENT
      if #infos > 0 then show(pinfo, infos) end
      return limit
    end
  end
  if #infos == 0 then return 0 end
  show(pinfo, infos)
  return at
end

DissectorTable.get("ethertype"):add(0x8624, ndn)
DissectorTable.get("udp.port"):add(6363, ndn)
DissectorTable.get("udp.port"):add(56363, ndn)
DissectorTable.get("tcp.port"):add(6363, stream)
