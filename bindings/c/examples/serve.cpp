// Answers the Interests below a prefix, until it is interrupted: serve PREFIX
#include <namewire.hpp>

#include <csignal>
#include <iostream>
#include <stdexcept>

int main(int argc, char **argv)
{
	if (argc != 2) {
		std::cerr << "usage: serve PREFIX\n";
		return 2;
	}
	// The signal is waited for below; threads that are started later inherit this.
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, nullptr);
	try {
		const std::string prefix = argv[1];
		const namewire::Context context;
		auto service = context.serve(prefix, [&](namewire::Interest interest) {
			const std::string name = interest.name();
			// An exception makes a Nack.
			if (name.size() <= prefix.size())
				throw std::invalid_argument("no name to greet");
			interest.answer("Hello, " + name.substr(prefix.size() + 1) + "!\n");
		});
		std::cout << "serving " << service.name() << std::endl;
		int number = 0;
		sigwait(&signals, &number);
		service.end();
	} catch (const namewire::Error &error) {
		std::cerr << error.what() << '\n';
		return 1;
	}
	return 0;
}
