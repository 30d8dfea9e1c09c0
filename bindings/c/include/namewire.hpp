/* namewire.h for C++17: objects that close themselves, and exceptions. */
#ifndef NAMEWIRE_HPP
#define NAMEWIRE_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "namewire.h"

namespace namewire {

/* A failure: code() has the number as in errno, what() the text. */
class Error : public std::system_error {
public:
	explicit Error(const namewire_error &error)
		: std::system_error(error.number, std::generic_category(), error.text)
	{
	}
};

/* An entry of a directory. */
struct Entry {
	std::string name;
	bool is_directory;
};

/* One version of a file. Reads may be called by many threads. */
class File {
public:
	/* Name with version. */
	std::string name() const { return namewire_file_name(file_.get()); }

	struct namewire_stat stat() const
	{
		struct namewire_stat found{};
		namewire_error error{};
		if (namewire_fstat(file_.get(), &found, &error) != 0)
			throw Error(error);
		return found;
	}

	/* Length in bytes. */
	std::uint64_t size() const { return stat().size; }

	/* Reads up to `length` bytes at `offset`; returns their number: fewer at the end of the file. */
	std::size_t pread(void *buffer, std::size_t length, std::uint64_t offset) const
	{
		namewire_error error{};
		const ssize_t count = namewire_pread(file_.get(), buffer, length, offset, &error);
		if (count < 0)
			throw Error(error);
		return static_cast<std::size_t>(count);
	}

	/* Reads several parts, fetched together; returns the number of bytes in all. */
	std::size_t preadv(std::vector<namewire_part> &parts) const
	{
		namewire_error error{};
		const ssize_t count = namewire_preadv(file_.get(), parts.data(), parts.size(), &error);
		if (count < 0)
			throw Error(error);
		return static_cast<std::size_t>(count);
	}

private:
	friend class Context;
	struct Close {
		void operator()(namewire_file *file) const { namewire_close(file); }
	};
	explicit File(namewire_file *file) : file_(file) {}
	std::unique_ptr<namewire_file, Close> file_;
};

/* A connection to a forwarder. May be used by many threads. */
class Context {
public:
	Context() : Context(default_options()) {}

	explicit Context(const namewire_options &options)
	{
		namewire_error error{};
		context_.reset(namewire_connect(&options, &error));
		if (!context_)
			throw Error(error);
	}

	/* Options that all have their defaults. */
	static namewire_options default_options()
	{
		namewire_options options{};
		options.size = sizeof options;
		return options;
	}

	/* Opens the current version of a file. */
	File open(const std::string &name) const
	{
		namewire_error error{};
		namewire_file *file = namewire_open(context_.get(), name.c_str(), &error);
		if (!file)
			throw Error(error);
		return File(file);
	}

	/* Describes the current version of a file or directory. */
	struct namewire_stat stat(const std::string &name) const
	{
		struct namewire_stat found{};
		namewire_error error{};
		if (namewire_stat(context_.get(), name.c_str(), &found, &error) != 0)
			throw Error(error);
		return found;
	}

	/* The entries of a directory, in order. */
	std::vector<Entry> list(const std::string &name) const
	{
		struct Close {
			void operator()(namewire_directory *directory) const { namewire_closedir(directory); }
		};
		namewire_error error{};
		std::unique_ptr<namewire_directory, Close> directory(
			namewire_opendir(context_.get(), name.c_str(), &error));
		if (!directory)
			throw Error(error);
		std::vector<Entry> entries;
		namewire_entry entry{};
		while (namewire_readdir(directory.get(), &entry) == 1)
			entries.push_back({entry.name, entry.is_directory != 0});
		return entries;
	}

private:
	struct Close {
		void operator()(namewire_context *context) const { namewire_disconnect(context); }
	};
	std::unique_ptr<namewire_context, Close> context_;
};

} // namespace namewire

#endif
