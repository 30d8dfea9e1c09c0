"""Uses the key chain of HOME with python-ndn.

Usage: key_chain.py make IDENTITY ec|rsa     makes the key chain if there is none, and a key
       key_chain.py list                     names of identities, keys and certificates, one a line
       key_chain.py sign IDENTITY            a signed Data in Base64
"""

import base64
import os
import sys

from ndn.client_conf import default_keychain, read_client_conf
from ndn.encoding import MetaInfo, Name, make_data
from ndn.security import KeychainSqlite3


def main(command, *arguments):
    database = os.path.expanduser("~/.ndn/pib.db")
    if command == "make" and not os.path.exists(database):
        KeychainSqlite3.initialize(database, "tpm-file")
    conf = read_client_conf()
    chain = default_keychain(conf["pib"], conf["tpm"])
    if command == "make":
        identity, key_type = arguments
        if Name.from_str(identity) not in chain:
            chain.new_identity(identity)
        chain.new_key(identity, key_type)
    elif command == "list":
        for identity in chain:
            print(Name.to_str(identity))
            for key in chain[identity]:
                print(Name.to_str(key))
                for certificate in chain[identity][key]:
                    print(Name.to_str(certificate))
    elif command == "sign":
        signer = chain.get_signer({"identity": arguments[0]})
        data = make_data(Name.from_str("/signed"), MetaInfo(), b"content", signer)
        print(base64.b64encode(bytes(data)).decode())


main(*sys.argv[1:])
