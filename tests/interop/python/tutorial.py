from ndn.app import NDNApp

app = NDNApp()


@app.route("/example/testApp")
def on_interest(name, interest_param, application_param):
    app.put_data(name, content=b"Hello, world!", freshness_period=10000)


app.run_forever()
