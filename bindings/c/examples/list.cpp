/* Lists a directory, with the lengths of its files. */
#include <iostream>
#include <namewire.hpp>

int main(int argc, char **argv)
{
	if (argc != 2) {
		std::cerr << "usage: " << argv[0] << " NAME\n";
		return 2;
	}
	try {
		const namewire::Context context;
		for (const auto &entry : context.list(argv[1])) {
			std::cout << entry.name;
			if (entry.is_directory)
				std::cout << "/\n";
			else
				std::cout << '\t' << context.open(std::string(argv[1]) + "/" + entry.name).size() << '\n';
		}
	} catch (const namewire::Error &error) {
		std::cerr << argv[0] << ": " << error.what() << '\n';
		return error.code() == std::errc::no_such_file_or_directory ? 3 : 1;
	}
	return 0;
}
